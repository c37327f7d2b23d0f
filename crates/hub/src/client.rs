//! Requests to the hub: redirects, proxies, the token, and what a status means.
//!
//! Redirects are followed here and not by the HTTP library, for three reasons: the token goes to the hub's own origin and to
//! nobody else, the headers of the first answer name the file (`X-Linked-Etag`), and https never becomes http. Requests ask for
//! plain bytes (`Accept-Encoding: identity`), without which a range would mean something else.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Proxy};

use crate::error::{HubError, TokenUse};
use crate::retry::asked_wait;
use crate::settings::{ENDPOINT, Proxies, Settings, Token};

const CONNECT: Duration = Duration::from_secs(15);
const REDIRECTS: usize = 6;
/// How often a running request is compared with the wish to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Longest part of a server's own words that is passed on.
const WORDS: usize = 300;

/// The origin of an address: what a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin(String, String, u16);

impl Origin {
    fn of(uri: &Uri) -> Option<Origin> {
        let scheme = uri.scheme_str()?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        Some(Origin(scheme, uri.host()?.to_ascii_lowercase(), port))
    }
}

/// A connection to one hub.
pub struct Client {
    direct: Agent,
    by_proxy: Vec<(&'static str, Agent)>,
    except: Vec<String>,
    origin: Origin,
    /// The hub's address, without a slash at the end.
    pub endpoint: String,
    token: Option<Token>,
    token_use: TokenUse,
}

/// An answer after all redirects.
pub struct Answer {
    /// Headers of the first answer, which is the hub's own.
    pub first: HeaderMap,
    /// The last answer.
    pub last: Response<Body>,
    /// Whether the last answer came from the hub itself.
    pub from_hub: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Worth another attempt, after so long where the server says so.
    Transient { host: String, reason: String, wait: Option<Duration>, busy: bool },
    /// The server answers with this status, and will again.
    Status { url: String, status: u16, code: Option<String>, message: Option<String> },
    /// Anything else that another attempt does not mend.
    Fatal(HubError),
}

impl Client {
    /// A client with the settings' proxies, certificates and token.
    ///
    /// # Errors
    /// A proxy or the certificates cannot be used.
    pub fn new(settings: &Settings) -> Result<Client, HubError> {
        let tls = tls(settings)?;
        let agent = |proxy: Option<Proxy>| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(proxy)
                .tls_config(tls.clone())
                .accept_encoding("identity")
                .user_agent(concat!("rawloop/", env!("CARGO_PKG_VERSION")))
                .timeout_resolve(Some(CONNECT))
                .timeout_connect(Some(CONNECT))
                .timeout_per_read(Some(settings.retry.stall))
                .timeout_per_write(Some(settings.retry.stall))
                .build()
                .new_agent()
        };
        let Proxies { http, https, except } = &settings.proxies;
        let mut by_proxy = Vec::new();
        for (scheme, proxy) in [("http", http), ("https", https)] {
            let Some((name, url)) = proxy else { continue };
            by_proxy.push((scheme, agent(Some(self::proxy(name, url)?))));
        }
        let wrong = || HubError::Setting {
            name: "HF_ENDPOINT",
            reason: format!("{} is no address", settings.endpoint),
        };
        let uri: Uri = settings.endpoint.parse().map_err(|_| wrong())?;
        let mut client = Client {
            direct: agent(None),
            by_proxy,
            except: except.clone(),
            origin: Origin::of(&uri).ok_or_else(wrong)?,
            endpoint: settings.endpoint.clone(),
            token: None,
            token_use: TokenUse::None,
        };
        if let Some(token) = &settings.token {
            client.token_use = client.judge_token(token, &uri);
            client.token = Some(token.clone()).filter(|_| client.token_use == TokenUse::Sent);
        }
        Ok(client)
    }

    /// Whether requests to the hub carry a token, and why not.
    pub fn token_use(&self) -> TokenUse {
        self.token_use
    }

    /// Whether a token may go to the hub at an address.
    fn judge_token(&self, token: &Token, hub: &Uri) -> TokenUse {
        let public = ENDPOINT.parse().ok().as_ref().and_then(Origin::of);
        if token.stored && public.as_ref() != Some(&self.origin) {
            return TokenUse::Stored;
        }
        // Behind a proxy the name of this machine means the proxy's.
        let stays = is_this_machine(hub) && std::ptr::eq(self.agent(hub), &self.direct);
        if hub.scheme_str() == Some("https") || stays { TokenUse::Sent } else { TokenUse::Open }
    }

    /// Runs `work` and ends its requests at once when `cancel` is set; the client is of no use afterwards. Looking up a name and
    /// opening a connection are not ended; they have limits of their own.
    pub fn watched<T>(&self, cancel: &AtomicBool, work: impl FnOnce() -> T) -> T {
        let (done, waiting) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                // The sender is dropped with `work`, which ends the wait.
                while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(LOOK) {
                    if cancel.load(Ordering::Relaxed) {
                        self.direct.clone().shutdown();
                        self.by_proxy.iter().for_each(|(_, agent)| agent.clone().shutdown());
                        return;
                    }
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    /// A GET, with extra headers, through redirects.
    pub fn get(&self, url: &str, headers: &[(&str, &str)]) -> Result<Answer, Failure> {
        let mut uri: Uri = url.parse().map_err(|_| no_sense(url, "is no address"))?;
        let mut first = None;
        for _ in 0..=REDIRECTS {
            let response = self.once(&uri, headers)?;
            let status = response.status().as_u16();
            let headers_here = response.headers();
            if matches!(status, 301 | 302 | 303 | 307 | 308) {
                let target =
                    text(headers_here, "location").ok_or_else(|| no_sense(url, "redirects to nowhere"))?;
                let next =
                    join(&uri, &target).ok_or_else(|| no_sense(url, "redirects to what is no address"))?;
                if uri.scheme_str() == Some("https") && next.scheme_str() != Some("https") {
                    return Err(no_sense(url, "redirects from https to an open connection"));
                }
                first.get_or_insert_with(|| headers_here.clone());
                uri = next;
                continue;
            }
            let first = first.unwrap_or_else(|| headers_here.clone());
            let from_hub = self.is_hub(&uri);
            return self.judge(Answer { first, last: response, from_hub }, &uri);
        }
        Err(no_sense(url, "redirects in a circle"))
    }

    /// One request. The token goes to the hub's origin only.
    fn once(&self, uri: &Uri, headers: &[(&str, &str)]) -> Result<Response<Body>, Failure> {
        let mut request = self.agent(uri).get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token.as_ref().filter(|_| self.is_hub(uri)) {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        request.call().map_err(|error| transient(uri, reason(&error)))
    }

    fn is_hub(&self, uri: &Uri) -> bool {
        Origin::of(uri).is_some_and(|origin| origin == self.origin)
    }

    fn agent(&self, uri: &Uri) -> &Agent {
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let excepted = self.except.iter().any(|entry| is_excepted(entry, &host));
        let found = self.by_proxy.iter().find(|(scheme, _)| Some(*scheme) == uri.scheme_str() && !excepted);
        found.map_or(&self.direct, |(_, agent)| agent)
    }

    /// Sorts answers into usable, worth another attempt and final.
    fn judge(&self, answer: Answer, uri: &Uri) -> Result<Answer, Failure> {
        let status = answer.last.status().as_u16();
        match status {
            200..=299 => Ok(answer),
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Err(Failure::Transient {
                host: host(uri),
                reason: format!("it answers {status}"),
                wait: asked_wait(answer.last.headers()),
                busy: status == 429,
            }),
            // A signed address that ran out: the hub hands out a new one.
            401 | 403 if !answer.from_hub => Err(transient(uri, format!("it answers {status}"))),
            _ => {
                let headers = answer.last.headers();
                let (code, said) = (text(headers, "x-error-code"), text(headers, "x-error-message"));
                let message = said.or_else(|| words(answer.last));
                Err(Failure::Status { url: shown(uri), status, code, message })
            }
        }
    }
}

/// A header as text.
pub fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(String::from)
}

/// A failure on the way.
pub fn transient(uri: &Uri, reason: String) -> Failure {
    Failure::Transient { host: host(uri), reason, wait: None, busy: false }
}

/// What an error of the HTTP library says, in the words of this one.
pub fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "its name is not known".into(),
        ureq::Error::Timeout(_) => "it does not answer in time".into(),
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn no_sense(url: &str, reason: &str) -> Failure {
    let url = url.split('?').next().unwrap_or_default().to_owned();
    Failure::Fatal(HubError::Protocol { url, reason: reason.into() })
}

/// An address without its query, which can hold a signature.
fn shown(uri: &Uri) -> String {
    format!("{}://{}{}", uri.scheme_str().unwrap_or("http"), host(uri), uri.path())
}

fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    uri.port_u16().map_or_else(|| host.into(), |port| format!("{host}:{port}"))
}

/// The start of a short text or JSON error.
fn words(response: Response<Body>) -> Option<String> {
    let body = response.into_body().into_with_config().limit(64 << 10).read_to_string().ok()?;
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&body) {
        return value["error"].as_str().map(|text| text.chars().take(WORDS).collect());
    }
    let line = body.lines().next()?.trim();
    (!line.is_empty() && !line.starts_with('<'))
        .then(|| line.chars().take(WORDS).filter(|c| !c.is_control()).collect())
}

/// The address that a `Location` means.
fn join(base: &Uri, target: &str) -> Option<Uri> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return target.parse().ok();
    }
    let scheme = base.scheme_str()?;
    if let Some(rest) = target.strip_prefix("//") {
        return format!("{scheme}://{rest}").parse().ok();
    }
    let authority = base.authority()?;
    if target.starts_with('/') {
        return format!("{scheme}://{authority}{target}").parse().ok();
    }
    let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{scheme}://{authority}{folder}/{target}").parse().ok()
}

/// Whether an address is this machine's own, as far as its text says.
fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether an entry of NO_PROXY covers a host: the name itself, what ends with it, or everything.
fn is_excepted(entry: &str, host: &str) -> bool {
    let entry = entry.split(':').next().unwrap_or_default();
    let name = entry.trim_start_matches("*.").trim_start_matches('.');
    entry == "*"
        || (!name.is_empty()
            && (host == name || host.strip_suffix(name).is_some_and(|head| head.ends_with('.'))))
}

fn proxy(name: &'static str, url: &str) -> Result<Proxy, HubError> {
    // The address can hold a password, so it is not repeated.
    let refuse =
        || HubError::Setting { name, reason: "expected http://HOST:PORT or https://HOST:PORT".into() };
    if url.contains("://") && !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(refuse());
    }
    Proxy::new(url).map_err(|_| refuse())
}

fn tls(settings: &Settings) -> Result<TlsConfig, HubError> {
    let Some(file) = &settings.certificates else { return Ok(TlsConfig::default()) };
    let pem = std::fs::read(file).map_err(HubError::io(file, "read the certificates in"))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let reason = format!("{} holds no certificate", file.display());
        return Err(HubError::Setting { name: "SSL_CERT_FILE", reason });
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::from(certificates)).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_joined() {
        let base: Uri = "https://hub/a/b?c".parse().unwrap();
        for (target, joined) in [
            ("http://x/y", "http://x/y"),
            ("//cdn/z?q=1", "https://cdn/z?q=1"),
            ("/z", "https://hub/z"),
            ("z", "https://hub/a/z"),
        ] {
            assert_eq!(join(&base, target).unwrap().to_string(), joined);
        }
    }

    #[test]
    fn exceptions_cover_names_and_what_is_below_them() {
        for (entry, host, covered) in [
            ("*", "a.b", true),
            ("b.c", "b.c", true),
            ("b.c", "a.b.c", true),
            (".b.c", "a.b.c", true),
            ("*.b.c", "a.b.c", true),
            ("b.c:443", "b.c", true),
            ("b.c", "ab.c", false),
            ("", "a", false),
        ] {
            assert_eq!(is_excepted(entry, host), covered, "{entry} {host}");
        }
    }

    #[test]
    fn a_token_goes_where_it_was_meant_for() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "hf_stored").unwrap();
        let home = home.path().to_str().unwrap();
        let becomes = |variables: &[(&str, &str)]| {
            let find = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.into());
            Client::new(&Settings::new(find, Some("/user".into())).unwrap()).unwrap().token_use()
        };
        let (stored, given) = (("HF_HOME", home), ("HF_TOKEN", "hf_given"));
        let at = |address| ("HF_ENDPOINT", address);
        assert_eq!(becomes(&[]), TokenUse::None);
        for token in [stored, given] {
            assert_eq!(becomes(&[token]), TokenUse::Sent);
            assert_eq!(becomes(&[token, at("https://huggingface.co:443/")]), TokenUse::Sent);
        }
        for mirror in ["https://mirror", "https://huggingface.co.mirror", "https://huggingface.co:444"] {
            assert_eq!(becomes(&[stored, at(mirror)]), TokenUse::Stored, "{mirror}");
            assert_eq!(becomes(&[stored, given, at(mirror)]), TokenUse::Sent, "{mirror}");
        }
        for open in
            ["http://mirror", "http://huggingface.co", "http://10.0.0.1:80", "http://localhost.mirror"]
        {
            assert_eq!(becomes(&[given, at(open)]), TokenUse::Open, "{open}");
            assert_ne!(becomes(&[stored, at(open)]), TokenUse::Sent, "{open}");
        }
        for own in ["http://127.0.0.1:1", "http://localhost", "http://[::1]:2/hub"] {
            assert_eq!(becomes(&[given, at(own)]), TokenUse::Sent, "{own}");
            assert_eq!(becomes(&[stored, at(own)]), TokenUse::Stored, "{own}");
            let proxy = ("HTTP_PROXY", "http://proxy:1");
            assert_eq!(becomes(&[given, at(own), proxy]), TokenUse::Open, "{own}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let origin = |text: &str| Origin::of(&text.parse().unwrap()).unwrap();
        assert_eq!(origin("https://Hub/x"), origin("https://hub:443/y"));
        assert_ne!(origin("https://hub/"), origin("http://hub/"));
        assert_ne!(origin("http://hub:1/"), origin("http://hub:2/"));
    }
}
