//! Domains, and versions of their operator sets.

use std::collections::BTreeMap;

use super::proto::{ModelProto, OperatorSetIdProto};
use crate::error::{Error, Result};

/// Returns the imported operator sets. Before IR version 3 there was one, without imports.
pub(super) fn model_opsets(model: &ModelProto, ir_version: i64) -> Result<BTreeMap<String, i64>> {
    if model.opset_import.is_empty() {
        if ir_version >= 3 {
            return Err(Error::invalid("the model imports no operator set"));
        }
        return Ok(BTreeMap::from([(String::new(), 1)]));
    }
    read_opsets(&model.opset_import)
}

/// Returns the versions of operator sets, by domain.
pub(super) fn read_opsets(imports: &[OperatorSetIdProto]) -> Result<BTreeMap<String, i64>> {
    let mut versions = BTreeMap::new();
    for import in imports {
        let (domain, version) = (domain_of(&import.domain), import.version.unwrap_or(0));
        if version < 1 {
            return Err(Error::invalid(format!(
                "operator set {version} of the domain \"{domain}\" is imported"
            )));
        }
        if versions.insert(domain.to_owned(), version).is_some_and(|other| other != version) {
            return Err(Error::invalid(format!("two operator sets of the domain \"{domain}\" are imported")));
        }
    }
    Ok(versions)
}

/// Returns a domain. ONNX's has two spellings.
pub(super) fn domain_of(domain: &Option<String>) -> &str {
    match domain.as_deref() {
        None | Some("ai.onnx") => "",
        Some(domain) => domain,
    }
}
