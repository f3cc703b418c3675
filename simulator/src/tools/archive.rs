//! A backup as data, and as the `tar.gz` that Velero writes.
//!
//! Format: `metadata/version`, then `resources/PLURAL[.GROUP]/{cluster,namespaces/NAMESPACE}/NAME.json`
//! (format 1), and the same bytes again under `VERSION-preferredversion/` (format 1.1.0, Velero
//! `pkg/archive`). Reading takes identity from the JSON, not from file names, and refuses what an
//! archive of Velero's never holds: paths that escape, links, bombs, JSON that is no object.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Component, Path};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use rewake_apiserver::object::ObjectExt;
use rewake_apiserver::resource::{GroupResource, split_api_version};
use serde_json::Value;

/// Most bytes an archive may have once unpacked.
pub const UNPACKED_BYTES_MAX: u64 = 512 << 20;
/// Most files in an archive.
pub const FILES_MAX: usize = 200_000;
/// Most bytes of one file: twice what an API server stores.
pub const FILE_BYTES_MAX: u64 = 3 << 20;
/// Format that is written.
pub const FORMAT_VERSION: &str = "1.1.0";

/// Where an object lies in an archive.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ItemKey {
    /// Group and plural.
    pub resource: GroupResource,
    /// Namespace; empty when cluster-scoped.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What a backup holds.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    /// Name of the backup.
    pub name: String,
    /// Format version found in it; empty when it has none.
    pub format_version: String,
    /// Objects as they were, status, uids and all.
    pub items: BTreeMap<ItemKey, Arc<Value>>,
    /// Contents of the volumes behind claims, by namespace and name of the claim. Not part of the
    /// `tar.gz`: tools keep volume data elsewhere.
    pub volumes: BTreeMap<(String, String), rewake_apiserver::guest::VolumeData>,
}

/// Why an archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file is not a whole gzip-compressed tar archive.
    #[error("the archive is truncated or is not a gzip-compressed tar file: {0}")]
    Broken(#[source] std::io::Error),
    /// A path leads out of the archive.
    #[error(
        "the archive holds the path `{0}`, which leads out of it; no backup tool writes such paths, so it is refused"
    )]
    Escapes(String),
    /// Something that is not a regular file or a folder.
    #[error("the archive holds `{0}`, which is a link or a device; backups hold plain files only")]
    NotAFile(String),
    /// Too many bytes.
    #[error("the archive unpacks to more than {} MiB; this looks like a bomb and is refused", UNPACKED_BYTES_MAX >> 20)]
    TooLarge,
    /// Too many files.
    #[error("the archive holds more than {FILES_MAX} files")]
    TooManyFiles,
    /// A file is too large.
    #[error("`{path}` has {bytes} bytes; an object has at most {FILE_BYTES_MAX}")]
    FileTooLarge {
        /// The file.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// A file is not a JSON object with kind and name.
    #[error("`{path}` is not a Kubernetes object: {why}")]
    NotAnObject {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ItemKey {
    /// Names an item.
    #[must_use]
    pub fn new(resource: GroupResource, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// `statefulsets.apps team/web`.
impl std::fmt::Display for ItemKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.resource, self.name)
        } else {
            write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
        }
    }
}

impl Archive {
    /// Reads a `tar.gz`.
    ///
    /// # Errors
    /// See [`ArchiveError`].
    pub fn read(name: &str, from: impl Read) -> Result<Self, ArchiveError> {
        let mut archive = Self { name: name.to_owned(), ..Self::default() };
        // One byte more than allowed tells "too large" from "just fits".
        let unpacked = MultiGzDecoder::new(from).take(UNPACKED_BYTES_MAX + 1);
        let mut tar = tar::Archive::new(unpacked);
        let mut files = 0;
        let mut bytes_total: u64 = 0;
        for entry in tar.entries().map_err(ArchiveError::Broken)? {
            let mut entry = entry.map_err(ArchiveError::Broken)?;
            let path = checked_path(&entry)?;
            files += 1;
            if files > FILES_MAX {
                return Err(ArchiveError::TooManyFiles);
            }
            match entry.header().entry_type() {
                tar::EntryType::Directory | tar::EntryType::XGlobalHeader => continue,
                tar::EntryType::Regular | tar::EntryType::Continuous => {}
                _ => return Err(ArchiveError::NotAFile(path)),
            }
            let bytes = entry.size();
            bytes_total = bytes_total.saturating_add(bytes);
            if bytes_total > UNPACKED_BYTES_MAX {
                return Err(ArchiveError::TooLarge);
            }
            if bytes > FILE_BYTES_MAX {
                return Err(ArchiveError::FileTooLarge { path, bytes });
            }
            let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
            entry.read_to_end(&mut content).map_err(ArchiveError::Broken)?;
            archive.take_file(&path, &content)?;
        }
        Ok(archive)
    }

    fn take_file(&mut self, path: &str, content: &[u8]) -> Result<(), ArchiveError> {
        let parts: Vec<&str> = path.split('/').collect();
        let resource = match parts.as_slice() {
            ["metadata", "version"] => {
                self.format_version = String::from_utf8_lossy(content).trim().to_owned();
                return Ok(());
            }
            // The same objects stand again under each version; one copy is enough.
            ["resources", resource, "cluster", _] | ["resources", resource, "namespaces", _, _] => *resource,
            _ => return Ok(()),
        };
        if !path.ends_with(".json") {
            return Ok(());
        }
        let refuse = |why: String| ArchiveError::NotAnObject { path: path.to_owned(), why };
        let object: Value = serde_json::from_slice(content).map_err(|error| refuse(error.to_string()))?;
        if !object.is_object() || object.kind().is_empty() || object.api_version().is_empty() {
            return Err(refuse("it has no apiVersion and kind".to_owned()));
        }
        if object.name().is_empty() {
            return Err(refuse("it has no metadata.name".to_owned()));
        }
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let key = ItemKey::new(GroupResource::new(group, plural), object.namespace(), object.name());
        self.items.insert(key, Arc::new(object));
        Ok(())
    }

    /// Writes a `tar.gz` that Velero can read.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write(&self, to: impl Write) -> std::io::Result<()> {
        let mut tar = tar::Builder::new(GzEncoder::new(to, Compression::default()));
        let mut add = |path: &str, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            header.set_cksum();
            tar.append_data(&mut header, path, content)
        };
        add("metadata/version", format!("{FORMAT_VERSION}\n").as_bytes())?;
        for (key, object) in &self.items {
            let content = serde_json::to_vec(object)?;
            let (_, version) = split_api_version(object.api_version());
            let place = if key.namespace.is_empty() {
                format!("cluster/{}.json", key.name)
            } else {
                format!("namespaces/{}/{}.json", key.namespace, key.name)
            };
            add(&format!("resources/{}/{place}", key.resource), &content)?;
            add(&format!("resources/{}/{version}-preferredversion/{place}", key.resource), &content)?;
        }
        tar.into_inner()?.finish()?.flush()
    }

    /// What it holds, for people: counts by type and namespace, and what a restore will trip over.
    #[must_use]
    pub fn describe(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        let version = if self.format_version.is_empty() { "none (before Velero 1.4)" } else { &self.format_version };
        let _ = writeln!(text, "backup {}: {} objects, format version {version}", self.name, self.items.len());
        if self.items.is_empty() {
            text.push_str("there is no resources/ folder in it: a restore would restore nothing\n");
        }
        let mut counts: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for key in self.items.keys() {
            *counts.entry((&key.namespace, key.resource.to_string())).or_default() += 1;
        }
        let mut at = None;
        for ((namespace, resource), count) in &counts {
            if at != Some(*namespace) {
                let _ = match *namespace {
                    "" => writeln!(text, "  cluster-scoped"),
                    namespace => writeln!(text, "  namespace {namespace}"),
                };
                at = Some(*namespace);
            }
            let _ = writeln!(text, "    {count:>5}  {resource}");
        }
        let uids: std::collections::BTreeSet<&str> = self.items.values().map(|object| object.uid()).collect();
        let owned = self.items.values().filter(|object| object.owner_references().next().is_some()).count();
        let missing = |object: &&Arc<Value>| {
            object.owner_references().any(|owner| !uids.contains(owner["uid"].as_str().unwrap_or_default()))
        };
        let orphans = self.items.values().filter(missing).count();
        let held = self.items.values().filter(|object| object.finalizers().next().is_some()).count();
        let deleting = self.items.values().filter(|object| object.is_deleting()).count();
        let _ = writeln!(text, "  {owned} have owners ({orphans} of them an owner that is not in the backup)");
        let _ = writeln!(text, "  {held} have finalizers, {deleting} were being deleted");
        text
    }
}

fn checked_path<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String, ArchiveError> {
    let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let mut parts = Vec::new();
    for part in Path::new(&raw).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => return Err(ArchiveError::Escapes(raw)),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            // Written past the crate's own check, as a hostile archive would be.
            let name = path.as_bytes();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_cksum();
            tar.append(&header, *content).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn one_object() -> Archive {
        let object = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "namespace": "team", "uid": "u"}});
        let key = ItemKey::new(GroupResource::new("apps", "statefulsets"), "team", "web");
        Archive { name: "nightly".into(), items: BTreeMap::from([(key, Arc::new(object))]), ..Archive::default() }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut bytes = Vec::new();
        one_object().write(&mut bytes).unwrap();
        let read = Archive::read("nightly", bytes.as_slice()).unwrap();
        assert_eq!(read.format_version, FORMAT_VERSION);
        assert_eq!(read.items, one_object().items);
    }

    #[test]
    fn hostile_archives_are_refused_with_a_sentence() {
        let refused = |files: &[(&str, &[u8])]| Archive::read("x", tar_gz(files).as_slice()).unwrap_err().to_string();
        assert!(refused(&[("../etc/passwd", b"x")]).contains("leads out of it"));
        assert!(refused(&[("/etc/passwd", b"x")]).contains("leads out of it"));
        assert!(
            refused(&[("resources/pods/namespaces/a/b.json", b"{not json")]).contains("is not a Kubernetes object")
        );
        assert!(refused(&[("resources/pods/namespaces/a/b.json", b"[]")]).contains("no apiVersion and kind"));
        assert!(refused(&[("resources/pods/cluster/b.json", &vec![b' '; 4 << 20])]).contains("at most"));
        let mut whole = Vec::new();
        one_object().write(&mut whole).unwrap();
        let error = Archive::read("x", &whole[..whole.len() / 2]).unwrap_err().to_string();
        assert!(error.contains("truncated"), "{error}");
        assert!(Archive::read("x", &b"plain text"[..]).unwrap_err().to_string().contains("gzip"));
    }

    #[test]
    fn links_are_refused() {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, "resources/pods/cluster/a.json", "/etc/passwd").unwrap();
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        assert!(Archive::read("x", bytes.as_slice()).unwrap_err().to_string().contains("link"));
    }
}
