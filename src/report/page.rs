//! The report as a self-contained HTML page.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};

use super::{Report, Status};
use crate::error::{Error, Result};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The parts of the script, in dependency order.
const SCRIPTS: [&str; 9] = [
    include_str!("page/data.js"),
    include_str!("page/blocks.js"),
    include_str!("page/layout.js"),
    include_str!("page/paint.js"),
    include_str!("page/graph.js"),
    include_str!("page/stage.js"),
    include_str!("page/details.js"),
    include_str!("page/tables.js"),
    include_str!("page/views.js"),
];

pub(super) fn page(report: &Report) -> Result<String> {
    let failed = |error| Error::internal("the report cannot be serialized").caused_by(error);
    let data = serde_json::to_string(report).map_err(failed)?;
    let script = SCRIPTS.concat();
    let status = match report.status {
        Status::Converted => "converted",
        Status::Convertible => "convertible",
        Status::Refused => "refused",
        Status::Failed => "failed",
    };
    let parts = BTreeMap::from([
        ("title", text(&title(report))),
        ("status", status.to_owned()),
        ("generator", text(&report.generator)),
        ("style", STYLE.to_owned()),
        ("report", inside_script(&data)),
        ("script", format!("\"use strict\";\n(() => {{\n{script}}})();\n")),
    ]);
    let failed = |error| Error::internal("the template of the page is wrong").caused_by(error);
    rendered(&parts).map_err(failed)
}

fn rendered(parts: &BTreeMap<&str, String>) -> std::result::Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.keep_trailing_newline(true).build()?);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.render_str(PAGE, Serde(parts))
}

/// Returns the name of the model's file.
fn title(report: &Report) -> String {
    let file = report.model.as_ref().map(|model| model.file.as_str());
    let name = file.map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
    name.unwrap_or("ONNX model").to_owned()
}

/// Escapes text for use between tags or in quotes.
pub(super) fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes JSON for a script element: characters that could end the element or begin a comment occur only in
/// strings.
fn inside_script(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => safe.push_str("\\u003c"),
            '>' => safe.push_str("\\u003e"),
            '&' => safe.push_str("\\u0026"),
            '\u{2028}' => safe.push_str("\\u2028"),
            '\u{2029}' => safe.push_str("\\u2029"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Errors};

    #[test]
    fn names_of_the_model_are_escaped() {
        let hostile = "</script><script>alert(\"1\")</script><!-- {{style}} & 'x'\u{2028}\u{202e}ü";
        let errors = Errors::from(Error::unsupported(hostile));
        let page = Report::refused(&errors, &[], None, Vec::new()).to_html().unwrap();
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("<script").count(), 2);
        assert!(!page.contains("alert(\"1\")") && !page.contains("<!-- {{"));
        let data = page.split_once("id=\"report\">").unwrap().1.split_once("</script>").unwrap().0;
        let read: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["diagnostics"][0]["reason"], hostile);
        assert_eq!(text("<a href=\"x\">'&\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\u{fffd}");
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = Report::new(Status::Converted).to_html().unwrap();
        for word in ["http:", "https:", "src=", "import ", "fetch(", "url(", "XMLHttp", "{{"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
