//! Texts with placeholders.

/// Replaces each placeholder `{{name}}` in one pass: inserted text is not searched again.
pub(crate) fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else { break };
        page.extend(parts.iter().filter(|(part, _)| *part == name).map(|(_, text)| text.as_str()));
        rest = after;
    }
    page.push_str(rest);
    page
}
