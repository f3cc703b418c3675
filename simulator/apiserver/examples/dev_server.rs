//! Serves an embedded control plane on a loopback port, for trying things out: plain HTTP, or HTTPS with
//! `--kubeconfig FILE`.
//!
//! ```text
//! cargo run -p rewake-apiserver --example dev_server -- --port 8001 --controllers '*'
//! curl -H 'Authorization: Bearer admin' http://127.0.0.1:8001/api/v1/namespaces
//! ```
//!
//! `--controllers` takes `*`, `none` or names of control loops; `--node on` adds the node stand-in.
//!
//! Tokens: `admin` is in `system:masters`, `devtoken` is a user without rights.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rewake_apiserver::access::Authorization;
use rewake_apiserver::control_plane::Config;
use rewake_apiserver::host::webhooks::Https;
use rewake_apiserver::host::{Host, Parts};
use rewake_apiserver::http::authenticate::Tokens;
use rewake_apiserver::request::User;
use rewake_apiserver::serve::{Options, Server};
use rewake_apiserver::{loops, serve};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut port, mut controllers, mut node, mut kubeconfig) = (0, "none".to_owned(), false, None);
    let mut tokens = Tokens::default();
    tokens.insert("admin", User { uid: "admin".to_owned(), ..User::admin("admin") });
    tokens.insert("devtoken", User { name: "dev".to_owned(), ..User::default() });
    let config = Config { seed: 1, authorization: Authorization::Rbac, ..Config::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--port" => port = value.parse()?,
            "--controllers" => controllers = value,
            "--node" => node = value == "on",
            "--kubeconfig" => kubeconfig = Some(value),
            "--token-file" => tokens = Tokens::parse(&std::fs::read_to_string(value)?)?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let mut loops = loops::select(&controllers).map_err(|name| format!("unknown control loop {name}"))?;
    if node {
        loops.push(loops::node());
    }
    let parts = Parts { config, loops, webhooks: Arc::new(Https), pods: None };
    if let Some(path) = kubeconfig {
        let server = Server::start(Host::start(parts), Options { port, tokens }).await?;
        server.write_kubeconfig(std::path::Path::new(&path))?;
        println!("https://{}", server.address());
        std::future::pending::<()>().await;
        return Ok(());
    }
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}", listener.local_addr()?);
    serve::serve_http(listener, Host::start(parts), tokens, std::future::pending()).await?;
    Ok(())
}
