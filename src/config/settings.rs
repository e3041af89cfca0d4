//! The effective settings: every value in force and who gave it, for `plan`.

use super::node::Origin;
use nilometer_connectors::secret::is_secret;
use serde_json::Value as Json;

/// One setting in force.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Setting {
    /// Its path, as `--set` takes it.
    pub path: String,
    /// Its value, as the user would type it; `"***"` for a secret.
    pub value: Json,
    /// Who gave it.
    #[serde(rename = "from")]
    pub origin: Origin,
}

impl Setting {
    /// A setting; the value of a secret, or of what is in one, is forgotten.
    pub fn new(path: &[String], value: Json, origin: Origin) -> Self {
        let value = if is_secret(&path.join(".")) { Json::from("***") } else { value };
        Self { path: join(path), value, origin }
    }
}

/// Adds a default that was not known before: behind the settings of the same table.
pub(crate) fn insert(settings: &mut Vec<Setting>, setting: Setting) {
    let table = |path: &str| path.rsplit_once('.').map_or("", |(table, _)| table).to_owned();
    let own = table(&setting.path);
    let is_beside = |other: &Setting| other.path.starts_with(&format!("{own}."));
    let at = settings.iter().rposition(is_beside).map_or(settings.len(), |last| last + 1);
    settings.insert(at, setting);
}

/// The path as it is typed.
pub(crate) fn join(path: &[impl AsRef<str>]) -> String {
    let quoted = path.iter().map(AsRef::as_ref).map(|name: &str| {
        let is_bare = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if is_bare { name.to_owned() } else { Json::from(name).to_string() }
    });
    quoted.collect::<Vec<_>>().join(".")
}
