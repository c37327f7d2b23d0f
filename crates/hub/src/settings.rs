//! Where the hub is, where its cache lies, and who asks: the variables that Python's library knows, with the same meaning.
//!
//! Read once, from a function instead of the process's environment, so that every rule can be tested.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::HubError;
use crate::lock::TryLock;

/// The public hub.
pub(crate) const ENDPOINT: &str = "https://huggingface.co";

/// How often and how long a broken transfer is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Attempts in a row without progress before giving up.
    pub attempts: u32,
    /// Wait after the first failure; doubles each time.
    pub first: Duration,
    /// The longest wait of our own.
    pub longest: Duration,
    /// The longest wait that a server may ask for; beyond it we give up and say so.
    pub longest_asked: Duration,
    /// Silence after which a connection counts as broken.
    pub stall: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 6,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            longest_asked: Duration::from_secs(300),
            stall: Duration::from_secs(30),
        }
    }
}

/// Proxies by the scheme of the address asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proxies {
    pub http: Option<(&'static str, String)>,
    pub https: Option<(&'static str, String)>,
    pub except: Vec<String>,
}

/// A token, which no message and no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// Found in the file that a login keeps, rather than given for this call.
    pub(crate) stored: bool,
}

impl Token {
    /// The token itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// How the hub is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The hub's address, without a slash at the end.
    pub endpoint: String,
    /// The cache that Python's library uses too.
    pub cache: PathBuf,
    /// Who asks. One that was given goes to any address that was given, one that a login stored to the public hub alone, and
    /// neither over plain http to another machine.
    pub token: Option<Token>,
    /// Use what is here and nothing else.
    pub offline: bool,
    /// Attempts and waits.
    pub retry: Retry,
    /// Takes the lock of a download.
    pub take_lock: TryLock,
    /// A file of root certificates in place of Mozilla's.
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) proxies: Proxies,
}

impl Settings {
    /// From the process's environment.
    ///
    /// # Errors
    /// There is no home folder, or a variable cannot be used.
    pub fn from_env() -> Result<Settings, HubError> {
        Settings::new(|name| std::env::var_os(name), dirs::home_dir())
    }

    /// From variables and a home folder.
    ///
    /// # Errors
    /// Neither HF_HUB_CACHE nor a home folder, or a variable that cannot be used.
    pub fn new(
        variable: impl Fn(&str) -> Option<OsString>,
        home: Option<PathBuf>,
    ) -> Result<Settings, HubError> {
        let text = |name: &str| {
            let value = variable(name)?.into_string().ok()?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let folder = |name: &str| {
            let value = PathBuf::from(variable(name).filter(|value| !value.is_empty())?);
            match (value.strip_prefix("~"), &home) {
                (Ok(rest), Some(home)) => Some(home.join(rest)),
                _ => Some(value),
            }
        };
        let hub_home = folder("HF_HOME").or_else(|| {
            let cache = folder("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")))?;
            Some(cache.join("huggingface"))
        });
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(hub_home.as_ref()?.join("hub")))
            .ok_or(HubError::Setting {
                name: "HF_HOME",
                reason: "there is no home folder to keep downloads in: set it".into(),
            })?;
        let token_file = folder("HF_TOKEN_PATH").or_else(|| Some(hub_home.as_ref()?.join("token")));
        let token = text("HF_TOKEN")
            .or_else(|| text("HUGGING_FACE_HUB_TOKEN"))
            .map(|text| (text, false))
            .or_else(|| Some((std::fs::read_to_string(token_file?).ok()?, true)))
            .map(|(text, stored)| clean("HF_TOKEN", &text, stored))
            .transpose()?
            .flatten();
        let first = |names: &[&'static str]| names.iter().find_map(|name| Some((*name, text(name)?)));
        let endpoint = match text("HF_ENDPOINT") {
            Some(endpoint) => checked_endpoint("HF_ENDPOINT", &endpoint)?,
            None => ENDPOINT.into(),
        };
        Ok(Settings {
            endpoint,
            cache,
            token,
            offline: text("HF_HUB_OFFLINE")
                .or_else(|| text("TRANSFORMERS_OFFLINE"))
                .is_some_and(|value| is_true(&value)),
            retry: Retry::default(),
            take_lock: File::try_lock,
            certificates: folder("REQUESTS_CA_BUNDLE").or_else(|| folder("SSL_CERT_FILE")),
            proxies: Proxies {
                http: first(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]),
                https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
                except: text("no_proxy")
                    .or_else(|| text("NO_PROXY"))
                    .map(|list| list.split(',').map(|entry| entry.trim().to_ascii_lowercase()).collect())
                    .unwrap_or_default(),
            },
        })
    }

    /// Another address that serves the hub's paths.
    ///
    /// # Errors
    /// It is no http or https address.
    pub fn set_mirror(&mut self, url: &str) -> Result<(), HubError> {
        self.endpoint = checked_endpoint("--mirror", url)?;
        Ok(())
    }

    /// The token in a file.
    ///
    /// # Errors
    /// The file cannot be read or holds no token.
    pub fn set_token_file(&mut self, file: &Path) -> Result<(), HubError> {
        let text = std::fs::read_to_string(file).map_err(HubError::io(file, "read"))?;
        let token = clean("--token-file", &text, false)?;
        if token.is_none() {
            let reason = format!("{} is empty", file.display());
            return Err(HubError::Setting { name: "--token-file", reason });
        }
        self.token = token;
        Ok(())
    }
}

/// A token without the line break that editors add. It goes into a header, so it must be plain.
fn clean(name: &'static str, text: &str, stored: bool) -> Result<Option<Token>, HubError> {
    let token = text.trim();
    if token.bytes().any(|byte| !byte.is_ascii_graphic()) {
        let reason = "a token is one word of letters, digits and '_'".into();
        return Err(HubError::Setting { name, reason });
    }
    Ok((!token.is_empty()).then(|| Token { text: token.into(), stored }))
}

fn checked_endpoint(name: &'static str, text: &str) -> Result<String, HubError> {
    let text = text.trim_end_matches('/');
    let refuse = |reason: String| HubError::Setting { name, reason };
    let uri: ureq::http::Uri =
        text.parse().map_err(|error| refuse(format!("{text:?} is no address: {error}")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() || uri.query().is_some() {
        return Err(refuse(format!("{text:?}, expected https://HOST or https://HOST/PATH")));
    }
    Ok(text.into())
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Settings, HubError> {
        let find = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(OsString::from(found.1))
        };
        Settings::new(find, Some("/user".into()))
    }

    #[test]
    fn the_cache_is_where_python_keeps_it() {
        for (variables, cache) in [
            (&[][..], "/user/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")][..], "/x/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x"), ("HF_HOME", "/h")][..], "/h/hub"),
            (&[("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/old")][..], "/old"),
            (&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HUB_CACHE", "~/c")][..], "/user/c"),
            (&[("HF_HOME", "")][..], "/user/.cache/huggingface/hub"),
        ] {
            assert_eq!(with(variables).unwrap().cache, Path::new(cache), "{variables:?}");
        }
        assert!(Settings::new(|_| None, None).is_err());
    }

    #[test]
    fn a_token_comes_from_the_variable_before_the_file_and_is_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().display().to_string();
        std::fs::write(home.path().join("token"), "hf_file\n").unwrap();
        let token = |variables: &[(&str, &str)]| with(variables).unwrap().token.map(|token| token.text);
        assert_eq!(token(&[]), None);
        assert_eq!(token(&[("HF_HOME", &folder)]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_HOME", &folder), ("HF_TOKEN", " hf_x\n")]).as_deref(), Some("hf_x"));
        assert_eq!(token(&[("HF_HOME", &folder), ("HF_TOKEN", "")]).as_deref(), Some("hf_file"));
        let shown = format!("{:?}", with(&[("HF_TOKEN", "hf_secret")]).unwrap());
        assert!(!shown.contains("hf_secret"), "{shown}");
        let message = with(&[("HF_TOKEN", "hf_a b")]).unwrap_err().to_string();
        assert!(message.contains("HF_TOKEN") && !message.contains("hf_a"), "{message}");

        let mut settings = with(&[]).unwrap();
        settings.set_token_file(&home.path().join("token")).unwrap();
        assert_eq!(settings.token.as_ref().unwrap().text, "hf_file");
        std::fs::write(home.path().join("token"), "\n").unwrap();
        assert!(settings.set_token_file(&home.path().join("token")).is_err());
        assert!(settings.set_token_file(&home.path().join("missing")).is_err());
    }

    #[test]
    fn offline_endpoint_and_proxies_are_read() {
        for (value, offline) in
            [("1", true), ("on", true), ("True", true), ("0", false), ("", false), ("no", false)]
        {
            assert_eq!(with(&[("HF_HUB_OFFLINE", value)]).unwrap().offline, offline, "{value}");
        }
        assert_eq!(with(&[]).unwrap().endpoint, ENDPOINT);
        let mut settings = with(&[("HF_ENDPOINT", "http://mirror:8080/hub/")]).unwrap();
        assert_eq!(settings.endpoint, "http://mirror:8080/hub");
        for wrong in ["mirror", "ftp://mirror", "https://", "https://m?x=1"] {
            assert!(settings.set_mirror(wrong).unwrap_err().to_string().contains("--mirror"), "{wrong}");
        }
        let settings =
            with(&[("HTTPS_PROXY", "http://p:1"), ("ALL_PROXY", "http://q:2"), ("NO_PROXY", "a, .B")])
                .unwrap();
        assert_eq!(settings.proxies.https, Some(("HTTPS_PROXY", "http://p:1".into())));
        assert_eq!(settings.proxies.http, Some(("ALL_PROXY", "http://q:2".into())));
        assert_eq!(settings.proxies.except, ["a", ".b"]);
    }
}
