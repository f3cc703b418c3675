//! The kubeconfig of the server's administrator.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The file's text. Everything in it is free of characters that YAML would read otherwise.
pub(super) fn text(address: SocketAddr, authority_pem: &str, token: &str) -> String {
    let authority = STANDARD.encode(authority_pem);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: rewake
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
users:
- name: kubernetes-admin
  user:
    token: {token}
contexts:
- name: rewake
  context:
    cluster: rewake
    user: kubernetes-admin
current-context: rewake
"
    )
}

/// Writes the file readable by its owner only; one that is there is replaced.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let mut file = options.mode(0o600).open(path)?;
        // The mode above counts only for a file that is new.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())
    }
    #[cfg(not(unix))]
    options.open(path)?.write_all(text.as_bytes())
}
