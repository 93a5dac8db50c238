//! GitLab's REST API over our own HTTP: token, redirections, answers that did not change, paging.
//!
//! The crate's own way to ask (`AsyncQuery`) gives the body alone, takes an empty answer (204, 304) for a failure and a
//! limit without a date for one that ends in 1970. So its endpoints are sent from here, and every answer is kept whole.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LINK, LOCATION};
use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;

use super::endpoints::Asked;
use crate::forge::ForgeError;
use crate::forge::remote::http::{self, Answer, retried};
use crate::forge::remote::kept::Kept;
use crate::forge::settings::Settings;

/// Where gitlab.com is.
const GITLAB_COM: &str = "https://gitlab.com";

/// Most entries on a page.
const PER_PAGE: &str = "100";

/// Most pages of one list: a repository of 500,000 entries. More is a fault that would never end.
const MOST_PAGES: usize = 5_000;

/// Bytes of answers that are kept to ask whether they changed. One proposal has some 20 KB.
const MOST_KEPT: usize = 16 << 20;

/// Larger answers are archives and trees, which are asked for once and kept by what they mean.
const LARGEST_KEPT: usize = 256 << 10;

/// Most redirections that are followed for one question.
const MOST_HOPS: usize = 3;

/// One GitLab, seen with one account.
pub(super) struct Client {
    http: reqwest::Client,
    /// `https://HOST/api/v4/`.
    api: Url,
    /// `https://HOST/`, where git and people go.
    site: Url,
    token: Mutex<SecretString>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    /// Answers by address, with what GitLab calls this version of them.
    known: Kept<(HeaderValue, Answer)>,
    timeout: Duration,
    ca_file: Option<PathBuf>,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Result<Self, ForgeError> {
        let address = |text: &str| {
            Url::parse(&format!("{}/", text.trim_end_matches('/'))).map_err(|cause| ForgeError::Failed {
                what: format!("`{text}` is not an address"),
                cause: Some(Box::new(cause)),
            })
        };
        let from_api = settings.api_url.as_deref().map(|api| {
            let api = api.trim_end_matches('/');
            api.strip_suffix("/api/v4").unwrap_or(api)
        });
        let site = settings.url.as_deref().or(from_api).unwrap_or(GITLAB_COM);
        let api = settings.api_url.clone();
        let api = api.unwrap_or_else(|| format!("{}/api/v4", site.trim_end_matches('/')));
        let token = http::secret("token", settings.token_file.as_deref(), settings.token_env.as_deref())?;
        Ok(Self {
            http: http::client(settings)?,
            api: address(&api)?,
            site: address(site)?,
            token: Mutex::new(token),
            token_file: settings.token_file.clone(),
            token_env: settings.token_env.clone(),
            known: Kept::new(MOST_KEPT),
            timeout: settings.timeout(),
            ca_file: settings.ca_file.clone(),
        })
    }

    /// `https://HOST/` with the folder below which GitLab lives there.
    pub(super) fn site(&self) -> &Url {
        &self.site
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn ca_file(&self) -> Option<&std::path::Path> {
        self.ca_file.as_deref()
    }

    pub(super) fn token(&self) -> SecretString {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads one answer; `what` says what it is, `reading branch main of acme/infra`.
    pub(super) async fn read(&self, what: &str, asked: &Asked) -> Result<Answer, ForgeError> {
        let url = self.url(what, asked)?;
        self.read_at(what, asked, &url).await
    }

    /// Reads one answer as JSON.
    pub(super) async fn get<T: DeserializeOwned>(&self, what: &str, asked: &Asked) -> Result<T, ForgeError> {
        self.read(what, asked).await?.json(what)
    }

    /// As [`Client::get`]; `None` where there is no such thing.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        what: &str,
        asked: &Asked,
    ) -> Result<Option<T>, ForgeError> {
        match self.get(what, asked).await {
            Ok(found) => Ok(Some(found)),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a list to its last page.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        what: &str,
        asked: &Asked,
    ) -> Result<Vec<T>, ForgeError> {
        match self.first(what, asked, PER_PAGE, MOST_PAGES, |_| false).await? {
            (all, true) => Ok(all),
            (_, false) => {
                Err(ForgeError::Failed { what: format!("{what}: the list has no end"), cause: None })
            }
        }
    }

    /// Reads a list until `is_enough` says so of a page, and at most so many pages. Whether nothing that was wanted is
    /// missing.
    pub(super) async fn first<T: DeserializeOwned>(
        &self,
        what: &str,
        asked: &Asked,
        per_page: &str,
        most_pages: usize,
        is_enough: impl Fn(&[T]) -> bool,
    ) -> Result<(Vec<T>, bool), ForgeError> {
        let mut url = self.url(what, asked)?;
        url.query_pairs_mut().append_pair("per_page", per_page);
        let mut all = Vec::new();
        for _ in 0..most_pages {
            let answer = self.read_at(what, asked, &url).await?;
            let page: Vec<T> = answer.json(what)?;
            let enough = is_enough(&page);
            all.extend(page);
            match next_page(&answer, &url) {
                _ if enough => return Ok((all, true)),
                None => return Ok((all, true)),
                Some(next) if next == url => break,
                Some(next) => url = next,
            }
        }
        Ok((all, false))
    }

    /// Sends a write once, and gives its answer as it is: what became of a write without one must be looked up.
    pub(super) async fn write(&self, what: &str, asked: &Asked) -> Result<Answer, ForgeError> {
        let url = self.url(what, asked)?;
        let answer = self.send(what, asked, &url, None).await?;
        if answer.status.is_redirection() {
            return Err(ForgeError::Failed {
                what: format!(
                    "{what}: the forge answered with another address; set `url` to where it is now"
                ),
                cause: None,
            });
        }
        Ok(answer)
    }

    async fn read_at(&self, what: &str, asked: &Asked, url: &Url) -> Result<Answer, ForgeError> {
        // With its pauses, a read that is repeated takes no longer than a few that are answered at the last moment.
        let reading = retried(|| self.read_once(what, asked, url));
        tokio::time::timeout(3 * self.timeout, reading).await.unwrap_or_else(|_| {
            Err(ForgeError::Unanswered {
                what: format!("{what}, within {} s", 3 * self.timeout.as_secs()),
                cause: None,
            })
        })
    }

    async fn read_once(&self, what: &str, asked: &Asked, url: &Url) -> Result<Answer, ForgeError> {
        let known = self.known.get(url.as_str());
        let tag = known.as_ref().map(|known| &known.0);
        let mut url_now = url.clone();
        for _ in 0..=MOST_HOPS {
            let answer = self.send(what, asked, &url_now, tag).await?;
            if answer.status == StatusCode::NOT_MODIFIED
                && let Some(known) = &known
            {
                return Ok(known.1.clone());
            }
            if !answer.status.is_redirection() {
                let answer = judged(what, answer)?;
                if let (true, Some(tag)) = (answer.body.len() <= LARGEST_KEPT, answer.headers.get(ETAG)) {
                    let weight = answer.body.len() + 1_000;
                    self.known.put(url.as_str(), (tag.clone(), answer.clone()), weight);
                }
                return Ok(answer);
            }
            let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| url_now.join(to).ok()).filter(|to| self.may_follow(to));
            url_now = to.ok_or_else(|| ForgeError::Failed {
                what: format!("{what}: the forge answered with another address, which is not followed; set `url` to where it is now"),
                cause: None,
            })?;
        }
        Err(ForgeError::Failed { what: format!("{what}: one redirection after another"), cause: None })
    }

    /// Sends one request; the token goes to GitLab itself only. A token that was refused is read again: it may have
    /// been rotated, and nothing was done with the old one.
    #[tracing::instrument(name = "ask", skip_all, fields(forge = "gitlab", what, method = %asked.method()))]
    async fn send(
        &self,
        what: &str,
        asked: &Asked,
        url: &Url,
        tag: Option<&HeaderValue>,
    ) -> Result<Answer, ForgeError> {
        let body = asked.body().map_err(|cause| ForgeError::Failed {
            what: format!("{what}: the request cannot be written"),
            cause: Some(Box::new(cause)),
        })?;
        let ours = self.is_ours(url);
        let send = async |token: &SecretString| {
            let mut request = self.http.request(asked.method(), url.clone());
            if ours {
                let mut value = HeaderValue::from_str(token.expose_secret()).map_err(|_| {
                    ForgeError::Blocked { what: "the access token has characters that no token has".into() }
                })?;
                value.set_sensitive(true);
                request = request.header("private-token", value);
            }
            if let Some(tag) = tag.filter(|_| asked.method() == Method::GET) {
                request = request.header(IF_NONE_MATCH, tag);
            }
            if let Some((kind, bytes)) = &body {
                request = request.header(CONTENT_TYPE, *kind).body(bytes.clone());
            }
            let response = request.send().await.map_err(|cause| http::unanswered(what, cause))?;
            Answer::read(what, response).await
        };
        let answer = send(&self.token()).await?;
        if answer.status != StatusCode::UNAUTHORIZED || !ours {
            return Ok(answer);
        }
        let now = http::secret("token", self.token_file.as_deref(), self.token_env.as_deref())?;
        if now.expose_secret() == self.token().expose_secret() {
            return Ok(answer);
        }
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = now.clone();
        send(&now).await
    }

    fn url(&self, what: &str, asked: &Asked) -> Result<Url, ForgeError> {
        let mut url = self.api.join(&asked.endpoint()).map_err(|cause| ForgeError::Failed {
            what: format!("{what}: the address cannot be written"),
            cause: Some(Box::new(cause)),
        })?;
        let mut query = url.clone();
        asked.parameters().add_to_url(&mut query);
        url.set_query(query.query().filter(|query| !query.is_empty()));
        Ok(url)
    }

    fn is_ours(&self, url: &Url) -> bool {
        url.origin() == self.api.origin()
    }

    fn may_follow(&self, url: &Url) -> bool {
        self.is_ours(url) || url.scheme() == "https"
    }
}

/// The answer, or the failure that it stands for: some of GitLab's say what the owner of the token has to do.
pub(super) fn judged(what: &str, answer: Answer) -> Result<Answer, ForgeError> {
    let said = || String::from_utf8_lossy(&answer.body).to_lowercase();
    let blocked = |why: &str| Err(ForgeError::Blocked { what: format!("{what}: {why}") });
    match answer.status.as_u16() {
        401 if said().contains("expired") => blocked(
            "the access token has expired; make a new one and put it where `token_file` or `token_env` says",
        ),
        401 if said().contains("revoked") => blocked(
            "the access token was revoked; make a new one and put it where `token_file` or `token_env` says",
        ),
        401 => blocked("GitLab does not know the access token; check `token_file` or `token_env`, and `url`"),
        403 if said().contains("insufficient_scope") => {
            blocked("the access token lacks the scope `api`; make one that has it")
        }
        _ => answer.judged(what),
    }
}

/// Where the list goes on. Only the query is taken: the address in the header is the one that GitLab believes to have.
fn next_page(answer: &Answer, url: &Url) -> Option<Url> {
    let header = |name: &str| answer.headers.get(name)?.to_str().ok();
    let mut next = url.clone();
    if let Some(links) = header(LINK.as_str()) {
        let link =
            links.split(',').find(|link| link.contains("rel=\"next\"") || link.contains("rel=next"))?;
        let (from, to) = (link.find('<')?, link.find('>')?);
        let query = Url::parse(link.get(from + 1..to)?).ok()?.query()?.to_owned();
        next.set_query(Some(&query));
        return Some(next);
    }
    let page = header("x-next-page").filter(|page| !page.trim().is_empty())?.trim().to_owned();
    let others: Vec<_> = url.query_pairs().into_owned().filter(|(name, _)| name != "page").collect();
    next.query_pairs_mut().clear().extend_pairs(others).append_pair("page", &page);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Answer { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }

    #[test]
    fn a_list_goes_on_where_the_header_says_but_never_elsewhere() {
        let url = Url::parse("https://gitlab.example.com/api/v4/x?per_page=100").unwrap();
        let link = r#"<https://inside.example:8443/api/v4/x?page_token=b&per_page=100>; rel="next", <https://y/?z>; rel="first""#;
        let next = next_page(&answer(200, &[("link", link)], ""), &url).unwrap();
        assert_eq!(next.as_str(), "https://gitlab.example.com/api/v4/x?page_token=b&per_page=100");
        let next = next_page(&answer(200, &[("x-next-page", "2")], ""), &url).unwrap();
        assert_eq!(next.as_str(), "https://gitlab.example.com/api/v4/x?per_page=100&page=2");
        let next = next_page(&answer(200, &[("x-next-page", "3")], ""), &next).unwrap();
        assert_eq!(next.as_str(), "https://gitlab.example.com/api/v4/x?per_page=100&page=3");
        assert_eq!(next_page(&answer(200, &[("x-next-page", "")], ""), &url), None);
        assert_eq!(next_page(&answer(200, &[("link", "<https://y/?z>; rel=\"first\"")], ""), &url), None);
        assert_eq!(next_page(&answer(200, &[], ""), &url), None);
    }

    #[test]
    fn a_refused_token_says_what_its_owner_has_to_do() {
        let judged =
            |status, body| judged("reading acme/infra", answer(status, &[], body)).unwrap_err().to_string();
        let expired = r#"{"error":"invalid_token","error_description":"Token is expired. You can either do re-authorization or token refresh."}"#;
        assert!(judged(401, expired).contains("has expired"));
        let revoked = r#"{"error":"invalid_token","error_description":"Token was revoked. You have to re-authorize from the user."}"#;
        assert!(judged(401, revoked).contains("was revoked"));
        assert!(judged(401, r#"{"message":"401 Unauthorized"}"#).contains("does not know the access token"));
        let scope = r#"{"error":"insufficient_scope","error_description":"The request requires higher privileges than provided by the access token.","scope":"api"}"#;
        assert!(judged(403, scope).contains("lacks the scope `api`"));
        let denied = judged(403, r#"{"message":"403 Forbidden"}"#);
        assert_eq!(denied, "reading acme/infra (403 Forbidden) was denied");
    }

    #[test]
    fn gitlab_may_live_in_a_folder_of_its_host() {
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), "secret").unwrap();
        let at = |url: Option<&str>, api_url: Option<&str>| {
            let client = Client::new(&Settings {
                url: url.map(str::to_owned),
                api_url: api_url.map(str::to_owned),
                token_file: Some(token.path().to_path_buf()),
                ..Settings::default()
            });
            let client = client.unwrap();
            let project = super::super::endpoints::project("acme/infra").unwrap();
            (client.url("x", &project).unwrap().to_string(), client.site().to_string())
        };
        for (url, api_url, api, site) in [
            (None, None, "https://gitlab.com/api/v4", "https://gitlab.com/"),
            (Some("https://x.org/git/"), None, "https://x.org/git/api/v4", "https://x.org/git/"),
            (None, Some("https://x.org/git/api/v4"), "https://x.org/git/api/v4", "https://x.org/git/"),
            (
                Some("https://x.org"),
                Some("https://in.x.org/api/v4/"),
                "https://in.x.org/api/v4",
                "https://x.org/",
            ),
        ] {
            assert_eq!(at(url, api_url), (format!("{api}/projects/acme%2Finfra"), site.to_owned()));
        }
    }
}
