//! A browser: as much of WebDriver (W3C, 2018) as the tests need.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// For what a browser does on a loaded machine.
const SOON: Duration = Duration::from_secs(60);
/// The key by which WebDriver names elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How a browser is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// CSS pixels.
    pub(crate) width: u32,
    /// `prefers-color-scheme`.
    pub(crate) is_dark: bool,
    /// Whether pages may run scripts.
    pub(crate) has_scripts: bool,
}

/// A phone, in the dark.
pub(crate) const PHONE: Look = Look { width: 360, is_dark: true, has_scripts: true };
/// A desk, by day.
pub(crate) const DESK: Look = Look { width: 1280, is_dark: false, has_scripts: true };

/// A running browser. It ends with this.
pub(crate) struct Browser {
    driver: Child,
    session: String,
    _profile: TempDir,
}

/// Starts a driver, and gives its port; `None`: there is none. It takes a free port of IPv4 and then the same one of IPv6, and ends
/// where another program has that: then once more.
fn driver() -> Option<(Child, u16)> {
    for _ in 0..5 {
        let mut command = Command::new("chromedriver");
        let mut driver = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        // "ChromeDriver was started successfully on port 40123."
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        if let Some(port) = port {
            return Some((driver, port));
        }
        let ended = driver.wait().unwrap();
        eprintln!("chromedriver ended with {ended} before it answered");
    }
    panic!("chromedriver does not start");
}

impl Browser {
    /// Starts one; `None`: there is no Chromium, and the test says that it is skipped.
    pub(crate) fn start(look: Look) -> Option<Self> {
        let Some((driver, port)) = driver() else {
            eprintln!("skipped: there is no chromedriver (tests/setup.sh browser)");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let data = format!("--user-data-dir={}", profile.path().display());
        let mut args = vec![data, format!("--window-size={},900", look.width.max(500))];
        for flag in [
            "headless",
            "no-sandbox",
            "disable-gpu",
            "disable-quic",
            "no-first-run",
            "disable-background-networking",
            "disable-component-update",
            "disable-sync",
            "hide-scrollbars",
            "disable-dev-shm-usage",
        ] {
            args.push(format!("--{flag}"));
        }
        let mut options = json!({ "args": args });
        if !look.has_scripts {
            options["prefs"] = json!({ "profile.managed_default_content_settings.javascript": 2 });
        }
        let capabilities = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let root = format!("http://127.0.0.1:{port}/session");
        let asked = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let made = send("POST", &root, Some(&asked)).unwrap_or_else(|error| panic!("no session: {error}"));
        let session = format!("{root}/{}", made["sessionId"].as_str().unwrap());
        let browser = Self { driver, session, _profile: profile };
        let scheme = if look.is_dark { "dark" } else { "light" };
        let metrics = json!({ "width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.width < 500 });
        browser.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        let media = json!({ "features": [
            { "name": "prefers-color-scheme", "value": scheme }, { "name": "prefers-reduced-motion", "value": "reduce" },
        ] });
        browser.devtools("Emulation.setEmulatedMedia", &media);
        Some(browser)
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        send("POST", &format!("{}/{path}", self.session), Some(body))
    }

    fn get(&self, path: &str) -> Value {
        send("GET", &format!("{}/{path}", self.session), None).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Opens an address.
    pub(crate) fn open(&self, address: &str) {
        self.post("url", &json!({ "url": address }));
    }

    /// The path of the page that is open.
    pub(crate) fn path(&self) -> String {
        let address = self.get("url");
        let address = address.as_str().unwrap().split_once("://").unwrap().1;
        address.find('/').map_or("", |at| &address[at..]).to_owned()
    }

    /// What the page is made of.
    pub(crate) fn source(&self) -> String {
        self.get("source").as_str().unwrap().to_owned()
    }

    /// Waits until the page has this.
    pub(crate) fn until(&self, text: &str) {
        let end = Instant::now() + SOON;
        while !self.source().contains(text) {
            assert!(Instant::now() < end, "{text:?} does not come: {}", self.source());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn find(&self, css: &str) -> Option<String> {
        let found = self.try_post("element", &json!({ "using": "css selector", "value": css })).ok()?;
        Some(found[ELEMENT].as_str()?.to_owned())
    }

    /// Types into what a selector finds.
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let element = self.find(css).unwrap_or_else(|| panic!("no {css}: {}", self.source()));
        self.post(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Clicks what a selector finds, and waits until `comes` is on the page.
    pub(crate) fn click(&self, css: &str, comes: &str) {
        let end = Instant::now() + SOON;
        loop {
            let element = self.find(css).unwrap_or_else(|| panic!("no {css}: {}", self.source()));
            match self.try_post(&format!("element/{element}/click"), &json!({})) {
                Ok(_) => break,
                // The page was refreshed between the two looks.
                Err(error) => assert!(error.contains("stale element") && Instant::now() < end, "{css}: {error}"),
            }
        }
        self.until(comes);
    }

    /// Presses keys, one after another: `\u{e004}` is Tab, `\u{e007}` Enter (WebDriver §17.4.2).
    pub(crate) fn press(&self, keys: &str) {
        self.keys(keys.chars().flat_map(|key| [("keyDown", key), ("keyUp", key)]));
    }

    /// Presses Tab while Shift is held: one back.
    pub(crate) fn press_back(&self) {
        let (shift, tab) = ('\u{e008}', '\u{e004}');
        self.keys([("keyDown", shift), ("keyDown", tab), ("keyUp", tab), ("keyUp", shift)]);
    }

    fn keys(&self, keys: impl IntoIterator<Item = (&'static str, char)>) {
        let keys: Vec<Value> = keys.into_iter().map(|(kind, key)| json!({ "type": kind, "value": key })).collect();
        self.post("actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": keys }] }));
    }

    /// What a script returns. It runs beside the page, whatever the page allows.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The same for one that returns a promise.
    pub(crate) fn wait_for(&self, script: &str) -> Value {
        self.post("timeouts", &json!({ "script": SOON.as_millis() }));
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What the browser complained about: errors of the script, and what the page's policy forbade.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let said = self.post("se/log", &json!({ "type": "browser" }));
        let said =
            said.as_array().unwrap().iter().filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        said.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The page from its top, at most `highest` CSS pixels of it, as a PNG.
    pub(crate) fn picture(&self, highest: u32) -> Vec<u8> {
        use base64::Engine;
        let end = "document.querySelector('footer').getBoundingClientRect().bottom + scrollY";
        let size = self.run(&format!("return [document.documentElement.clientWidth, Math.ceil({end})]"));
        let height = size[1].as_u64().unwrap().min(highest.into());
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": height, "scale": 1 });
        let taken = json!({ "captureBeyondViewport": true, "format": "png", "clip": clip });
        let taken = self.devtools("Page.captureScreenshot", &taken);
        base64::engine::general_purpose::STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser.
        let _ = send("DELETE", &self.session, None);
        self.driver.kill().ok();
        self.driver.wait().ok();
    }
}

/// A command of WebDriver: its value, or its error.
fn send(method: &str, address: &str, body: Option<&Value>) -> Result<Value, String> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(2 * SOON)).build().into();
    let sent = match (method, body) {
        ("POST", Some(body)) => agent.post(address).header("content-type", "application/json").send(body.to_string()),
        ("DELETE", _) => agent.delete(address).call(),
        _ => agent.get(address).call(),
    };
    let mut answer = sent.map_err(|error| error.to_string())?;
    let text = answer.body_mut().with_config().limit(64 << 20).read_to_string().map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    if answer.status().is_success() { Ok(value["value"].clone()) } else { Err(value["value"].to_string()) }
}

/// axe-core, which looks for what keeps people from using a page; `None`: it was not installed.
pub(crate) fn axe() -> Option<String> {
    let tmp = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut folders = tmp.ancestors().map(|folder| folder.join("browser/node_modules/axe-core/axe.min.js"));
    let script = folders.find_map(|file| std::fs::read_to_string(file).ok());
    if script.is_none() {
        eprintln!("skipped: there is no axe-core (tests/setup.sh browser)");
    }
    script
}
