//! What containers hold and do: the minimal guest that controllers talk to through `exec`.
//!
//! A guest runs one small script, and only its arguments matter here:
//! `["sh", "-c", SCRIPT, NAME, ACTION, ARGS...]` with the actions
//!
//! | action | what it does |
//! |---|---|
//! | `configure DIR [EXIT]` | reads a container id from its input; writes `ID=EXIT` into `DIR/configure.status` and appends a line to `DIR/configure.count` |
//! | `status DIR` | prints `DIR/configure.status` |
//! | `notify LOG ARGS...` | appends its arguments as a line to `LOG` |
//! | `upload FILE` | writes its input into `FILE` |
//!
//! Files under a mounted claim live with the claim, all others with the container: what survives a
//! restart follows from that alone. Plain data; cloning forks it.

use bytes::Bytes;
use imbl::OrdMap;
use serde_json::Value;

use crate::control_plane::View;
use crate::object::ObjectExt;
use crate::resource::GroupResource;

/// Most bytes of one file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Where a file lives.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    /// With a container, by its id.
    Container(String),
    /// With a claim, by its uid.
    Claim(String),
}

/// The files of one claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeData(OrdMap<String, Bytes>);

/// What every container and claim holds.
#[derive(Clone, Debug, Default)]
pub struct Guests {
    files: OrdMap<Place, OrdMap<String, Bytes>>,
    troubles: Vec<Trouble>,
}

/// Something that does not work in some guests.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// Name, for ending it.
    pub id: String,
    /// Pods concerned: the whole name, or its beginning followed by `*`.
    pub pod: String,
    /// Only this action; `None` makes the whole container unreachable.
    pub action: Option<String>,
    /// Exit code of the action.
    pub exit: i32,
}

/// How a command ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ExecResult {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code.
    pub exit: i32,
}

/// What can be told of a guest from outside.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct GuestReport {
    /// How often `configure` has run on the files the container sees.
    pub configured: u64,
    /// The lines of its notification log.
    pub notified: Vec<String>,
}

impl Trouble {
    fn concerns(&self, pod: &str) -> bool {
        self.pod.strip_suffix('*').map_or(self.pod == pod, |start| pod.starts_with(start))
    }
}

impl Guests {
    /// Makes trouble until [`Guests::end_trouble`].
    pub fn make_trouble(&mut self, trouble: Trouble) {
        self.troubles.push(trouble);
    }

    /// Ends the troubles of this id; all of them when `None`.
    pub fn end_trouble(&mut self, id: Option<&str>) {
        self.troubles.retain(|trouble| id.is_some_and(|id| trouble.id != id));
    }

    /// What a claim holds.
    #[must_use]
    pub fn volume(&self, claim_uid: &str) -> VolumeData {
        VolumeData(self.files.get(&Place::Claim(claim_uid.to_owned())).cloned().unwrap_or_default())
    }

    /// Puts what another claim held behind this one, as a data mover does. Files that are there stay
    /// unless they have the same name.
    pub fn fill_volume(&mut self, claim_uid: &str, data: VolumeData) {
        let files = self.files.entry(Place::Claim(claim_uid.to_owned())).or_default();
        files.extend(data.0);
    }

    /// Runs a command in a container.
    ///
    /// # Errors
    /// Why the container cannot be reached, in the words of a kubelet.
    pub fn exec(
        &mut self,
        view: &View<'_>,
        namespace: &str,
        pod: &str,
        container: &str,
        argv: &[String],
        stdin: &[u8],
    ) -> Result<ExecResult, String> {
        let scene = Scene::of(view, namespace, pod, container)?;
        let [_, _, _, _, action, arguments @ ..] = argv else {
            return Ok(failed(127, "only `sh -c SCRIPT NAME ACTION ARGS...` is understood here"));
        };
        for trouble in self.troubles.iter().filter(|trouble| trouble.concerns(pod)) {
            match &trouble.action {
                None => return Err(format!("container {container} in pod {pod} does not answer")),
                Some(only) if only == action => {
                    let exit = trouble.exit;
                    if let ("configure", [dir, ..]) = (action.as_str(), arguments) {
                        // A setup that fails leaves a record that says so.
                        self.act(&scene, action, &[dir.clone(), exit.to_string()], stdin);
                    }
                    return Ok(failed(exit, "told to fail"));
                }
                Some(_) => {}
            }
        }
        if stdin.len() > FILE_BYTES_MAX {
            return Ok(failed(1, &format!("more than {FILE_BYTES_MAX} bytes of input")));
        }
        Ok(self.act(&scene, action, arguments, stdin))
    }

    fn act(&mut self, scene: &Scene, action: &str, arguments: &[String], stdin: &[u8]) -> ExecResult {
        let done = |stdout: &[u8]| ExecResult { stdout: stdout.to_vec(), ..ExecResult::default() };
        match (action, arguments) {
            ("configure", [dir, rest @ ..]) => {
                let id = String::from_utf8_lossy(stdin).lines().next().unwrap_or_default().to_owned();
                let exit = rest.first().map_or("0", String::as_str);
                self.append(scene, &format!("{dir}/configure.count"), &format!("{id}\n"));
                self.write(scene, &format!("{dir}/configure.status"), format!("{id}={exit}\n").into());
                done(b"")
            }
            ("status", [dir]) => done(&self.read(scene, &format!("{dir}/configure.status")).unwrap_or_default()),
            ("notify", [log, arguments @ ..]) => {
                let line = format!("{}\n", arguments.join(" "));
                self.append(scene, log, &line);
                done(line.as_bytes())
            }
            ("upload", [file]) => {
                self.write(scene, file, Bytes::copy_from_slice(stdin));
                done(b"")
            }
            _ => failed(64, &format!("unknown action {action}")),
        }
    }

    /// What can be told of the guest in the first container of a pod, whose files are below `dir`.
    #[must_use]
    pub fn report(&self, view: &View<'_>, namespace: &str, pod: &str, dir: &str) -> GuestReport {
        let pods = GroupResource::new("", "pods");
        let first = view.get(&pods, namespace, pod).and_then(|pod| pod["spec"]["containers"][0]["name"].as_str());
        let Ok(scene) = Scene::of(view, namespace, pod, first.unwrap_or_default()) else {
            return GuestReport::default();
        };
        let lines = |file: &str| -> Vec<String> {
            let content = self.read(&scene, &format!("{dir}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&content).lines().map(str::to_owned).collect()
        };
        GuestReport { configured: lines("configure.count").len() as u64, notified: lines("notify.log") }
    }

    fn read(&self, scene: &Scene, path: &str) -> Option<Bytes> {
        let (place, path) = scene.place(path);
        self.files.get(&place)?.get(&path).cloned()
    }

    fn write(&mut self, scene: &Scene, path: &str, content: Bytes) {
        let (place, path) = scene.place(path);
        self.files.entry(place).or_default().insert(path, content);
    }

    fn append(&mut self, scene: &Scene, path: &str, line: &str) {
        let mut content = self.read(scene, path).unwrap_or_default().to_vec();
        content.extend_from_slice(line.as_bytes());
        // A log that grows without end loses its beginning, as a rotated one does.
        let surplus = content.len().saturating_sub(FILE_BYTES_MAX);
        content.drain(..surplus);
        self.write(scene, path, content.into());
    }
}

fn failed(exit: i32, why: &str) -> ExecResult {
    ExecResult { stdout: Vec::new(), stderr: format!("{why}\n").into_bytes(), exit }
}

/// A running container and what is mounted into it.
struct Scene {
    container_id: String,
    /// Mount path, and uid of the claim behind it.
    mounts: Vec<(String, String)>,
}

impl Scene {
    fn of(view: &View<'_>, namespace: &str, pod: &str, container: &str) -> Result<Self, String> {
        let object = view
            .get(&GroupResource::new("", "pods"), namespace, pod)
            .ok_or_else(|| format!("pods \"{pod}\" not found"))?;
        let named =
            |list: &Value| list.as_array().into_iter().flatten().find(|item| item["name"] == container).cloned();
        let status = named(&object["status"]["containerStatuses"]).unwrap_or_default();
        let container_id = status["containerID"].as_str().unwrap_or_default().to_owned();
        if container_id.is_empty() || status["state"]["running"].is_null() {
            return Err(format!("container {container} in pod {pod} is not running"));
        }
        let spec = named(&object["spec"]["containers"]).unwrap_or_default();
        let mut mounts = Vec::new();
        for mount in spec["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = object["spec"]["volumes"].as_array().into_iter().flatten();
            let claim = volumes
                .filter(|volume| volume["name"] == mount["name"])
                .find_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
            let claim =
                claim.and_then(|claim| view.get(&GroupResource::new("", "persistentvolumeclaims"), namespace, claim));
            if let (Some(path), Some(claim)) = (mount["mountPath"].as_str(), claim) {
                mounts.push((path.trim_end_matches('/').to_owned(), claim.uid().to_owned()));
            }
        }
        Ok(Self { container_id, mounts })
    }

    /// Where a path leads: the mount with the longest matching path wins.
    fn place(&self, path: &str) -> (Place, String) {
        let under = |mount: &str| path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let mount = self.mounts.iter().filter(|(mount, _)| under(mount)).max_by_key(|(mount, _)| mount.len());
        match mount {
            // The whole path stays the name, so that one claim may be mounted at several places.
            Some((_, uid)) => (Place::Claim(uid.clone()), path.to_owned()),
            None => (Place::Container(self.container_id.clone()), path.to_owned()),
        }
    }
}
