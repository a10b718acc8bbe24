//! Pages in a headless browser, if the machine has one.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The names of Chromium on different systems.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

fn find() -> Option<&'static str> {
    let runs = |name: &&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    NAMES.into_iter().find(runs)
}

/// Opens a page with a script at its start that records errors and requests frames by a timer, since a
/// headless browser may draw none, and a script at its end that stores its result, URL-encoded JSON, in the
/// title. `None` if there is no browser.
pub fn open(page: &str, probe: &str) -> Option<Value> {
    let Some(browser) = find() else {
        // Not by a macro, whose output the test harness captures.
        let reported = writeln!(std::io::stderr(), "SKIPPED: there is no chromium to open pages in");
        reported.unwrap();
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let notes = "<script>window.seen = { errors: [], start: performance.now() };\
        window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);\
        for (const kind of ['error', 'unhandledrejection', 'securitypolicyviolation'])\
        addEventListener(kind, (e) => seen.errors.push(kind + ' ' + (e.message || e.reason || e.blockedURI)), true);</script>";
    let page = page.replacen("<head>", &format!("<head>{notes}"), 1);
    let (body, end) = page.rsplit_once("</body>").unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, format!("{body}<script>{probe}</script></body>{end}")).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--window-size=420,800", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let (title, _) = title.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let found = title.strip_prefix("seen:").unwrap_or_else(|| panic!("the probe has not ended: {title}"));
    Some(serde_json::from_str(&decode(found)).unwrap())
}

/// Decodes URL encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}
