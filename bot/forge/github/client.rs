//! Asking GitHub: one request and its answer, signed; reads that are asked again only for news; pages; GraphQL.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use octocrab::{Octocrab, OctocrabBuilder};
use reqwest::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, LINK, LOCATION};
use reqwest::{Method, StatusCode};
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::account::{Access, Account};
use super::address::Addresses;
use super::dto::{GraphQlAnswer, GraphQlError};
use crate::forge::ForgeError;
use crate::forge::remote::http::{self, Answer, LARGEST_ANSWER, retried};
use crate::forge::remote::kept::Kept;
use crate::forge::settings::Settings;

/// Bytes of answers that are kept to be asked again only for news. A list of 100 pull requests has some 2 MiB.
const KEPT_ANSWERS: usize = 32 << 20;

/// Most pages of a list that are read: 10,000 items.
const MOST_PAGES: usize = 100;

/// Most redirections that are followed.
const MOST_REDIRECTIONS: usize = 3;

/// One GitHub, as one account sees it.
pub(super) struct Client {
    pub(super) addresses: Addresses,
    settings: Settings,
    account: Account,
    http: reqwest::Client,
    /// `acme/infra`, as the configuration has it.
    repository: String,
    /// Signs nothing by itself; made when it is first needed, since it wants a runtime.
    crab: tokio::sync::OnceCell<Octocrab>,
    /// Answers with their tags, by path.
    tagged: Kept<(HeaderValue, Arc<Answer>)>,
}

/// What GraphQL made of a request.
pub(super) enum GraphQl {
    /// The data.
    Data(Value),
    /// It was not carried out, for these reasons.
    Refused(Vec<GraphQlError>),
    /// This server has no such thing.
    Unknown,
}

impl Client {
    pub(super) fn new(settings: &Settings, repository: &str) -> Result<Self, ForgeError> {
        Ok(Self {
            addresses: Addresses::new(settings)?,
            account: Account::new(settings)?,
            http: http::client(settings)?,
            settings: settings.clone(),
            repository: repository.to_owned(),
            crab: tokio::sync::OnceCell::new(),
            tagged: Kept::new(KEPT_ANSWERS),
        })
    }

    /// Reads what may change: the server says only whether it did, where it was asked before.
    pub(super) async fn get(&self, what: &str, path: &str) -> Result<Arc<Answer>, ForgeError> {
        let known = self.tagged.get(path);
        let mut headers = HeaderMap::new();
        if let Some(known) = &known {
            headers.insert(IF_NONE_MATCH, known.0.clone());
        }
        let answer = self.read(what, &format!("{}{path}", self.addresses.rest), &headers).await?;
        if let Some(known) = known.filter(|_| answer.status == StatusCode::NOT_MODIFIED) {
            return Ok(Arc::clone(&known.1));
        }
        let answer = Arc::new(judged(answer, what)?);
        if let Some(tag) = answer.headers.get(ETAG) {
            self.tagged.put(path, (tag.clone(), Arc::clone(&answer)), answer.body.len());
        }
        Ok(answer)
    }

    /// Reads what has its content for a name, and never changes.
    pub(super) async fn get_fixed(&self, what: &str, path: &str) -> Result<Answer, ForgeError> {
        let answer = self.read(what, &format!("{}{path}", self.addresses.rest), &HeaderMap::new()).await?;
        judged(answer, what)
    }

    /// Reads, and follows where it leads at the same origin; says whether it led anywhere.
    pub(super) async fn get_followed(&self, what: &str, path: &str) -> Result<(Answer, bool), ForgeError> {
        let mut at = format!("{}{path}", self.addresses.rest);
        for n_followed in 0..=MOST_REDIRECTIONS {
            let answer = self.read(what, &at, &HeaderMap::new()).await?;
            if !answer.status.is_redirection() {
                return Ok((judged(answer, what)?, n_followed > 0));
            }
            at = location(&answer)
                .and_then(|to| self.addresses.same_origin(&at, to))
                .ok_or_else(|| leads_away(what))?;
        }
        Err(ForgeError::Failed { what: format!("{what}: redirected again and again"), cause: None })
    }

    /// What lies where the answer to `path` leads. That place has its own way to know who may read, so the token stays
    /// here; only `https` is followed, but at the origin itself.
    pub(super) async fn download(&self, what: &str, path: &str) -> Result<Vec<u8>, ForgeError> {
        let at = format!("{}{path}", self.addresses.rest);
        let fetched = retried(|| async {
            let answer = self.send(what, Method::GET, &at, None, None).await?;
            if !answer.status.is_redirection() {
                return judged(answer, what);
            }
            let to = location(&answer).ok_or_else(|| leads_away(what))?;
            let url = match self.addresses.same_origin(&at, to) {
                Some(path) => format!("{}{path}", self.addresses.origin),
                None if to.starts_with("https://") => to.to_owned(),
                None => return Err(leads_away(what)),
            };
            let response = self.http.get(url).send().await.map_err(|cause| http::unanswered(what, cause))?;
            Answer::read(what, response).await?.judged(what)
        });
        Ok(fetched.await?.body)
    }

    /// Every item of a list.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
    ) -> Result<Vec<T>, ForgeError> {
        let sign = if path.contains('?') { '&' } else { '?' };
        let mut items = Vec::new();
        for page in 1..=MOST_PAGES {
            let answer = self.get(what, &format!("{path}{sign}per_page=100&page={page}")).await?;
            items.extend(answer.json::<Vec<T>>(what)?);
            if !has_next(&answer) {
                return Ok(items);
            }
        }
        Err(ForgeError::Failed { what: format!("{what}: more than {} items", MOST_PAGES * 100), cause: None })
    }

    /// Writes. Sent once; what became of it when no answer comes is the caller's to find out.
    pub(super) async fn write(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ForgeError> {
        let at = format!("{}{path}", self.addresses.rest);
        judged(self.send(what, method, &at, body, None).await?, what)
    }

    /// Asks GraphQL. Sent once.
    pub(super) async fn graphql(
        &self,
        what: &str,
        query: &str,
        variables: Value,
    ) -> Result<GraphQl, ForgeError> {
        let body = json!({"query": query, "variables": variables});
        let answer = self.send(what, Method::POST, &self.addresses.graphql, Some(&body), None).await?;
        if matches!(answer.status.as_u16(), 404 | 405 | 410 | 501) {
            return Ok(GraphQl::Unknown);
        }
        let said: GraphQlAnswer = judged(answer, what)?.json(what)?;
        if said.errors.is_empty() {
            return Ok(GraphQl::Data(said.data.unwrap_or_default()));
        }
        if said.errors.iter().any(|error| error.kind.as_deref() == Some("RATE_LIMITED")) {
            return Err(ForgeError::Busy { what: what.to_owned(), wait: None });
        }
        let unknown = said.errors.iter().any(|error| {
            let code = error.extensions.as_ref().and_then(|more| more.code.as_deref());
            matches!(code, Some("undefinedField" | "undefinedType" | "variableRequiresValidType"))
        });
        Ok(if unknown { GraphQl::Unknown } else { GraphQl::Refused(said.errors) })
    }

    /// Signs in as an App.
    pub(super) fn is_app(&self) -> bool {
        matches!(self.account, Account::App(_))
    }

    /// Asks as the App itself; `None` for other accounts. Only reads, and what may be done twice.
    pub(super) async fn as_app(
        &self,
        what: &str,
        method: Method,
        path: &str,
    ) -> Option<Result<Answer, ForgeError>> {
        match &self.account {
            Account::Token(_) => None,
            Account::App(app) => Some(app.ask(&self.access(), what, method, path, None).await),
        }
    }

    async fn read(&self, what: &str, at: &str, headers: &HeaderMap) -> Result<Answer, ForgeError> {
        retried(|| async {
            let answer = self.send(what, Method::GET, at, None, Some(headers)).await?;
            match answer.status.is_server_error() {
                true => judged(answer, what),
                false => Ok(answer),
            }
        })
        .await
    }

    /// One request, signed. It is sent a second time only after it was refused for its token, and so not looked at.
    #[tracing::instrument(name = "ask", skip_all, fields(forge = "github", what, %method))]
    async fn send(
        &self,
        what: &str,
        method: Method,
        at: &str,
        body: Option<&Value>,
        headers: Option<&HeaderMap>,
    ) -> Result<Answer, ForgeError> {
        let crab = self.crab().await?;
        let mut is_second = false;
        loop {
            let token = self.account.token(&self.access()).await?;
            let signed = crab.user_access_token(token.expose_secret().to_owned());
            let signed = signed.map_err(|cause| transport(what, &cause))?;
            let request = raw(&signed, what, method.clone(), at, body, headers.cloned());
            let answer =
                tokio::time::timeout(self.settings.timeout(), request).await.unwrap_or_else(|_| {
                    let what = format!("{what}, within {} s", self.settings.timeout().as_secs());
                    Err(ForgeError::Unanswered { what, cause: None })
                })?;
            let refused = answer.status == StatusCode::UNAUTHORIZED && !is_second;
            if !refused || !self.account.refused(&token, &self.settings).await? {
                return Ok(answer);
            }
            is_second = true;
        }
    }

    async fn crab(&self) -> Result<&Octocrab, ForgeError> {
        let made = self.crab.get_or_try_init(|| async {
            OctocrabBuilder::default()
                // Paths are given from the root: octocrab would put `/api/v3` before that of GraphQL too.
                .base_uri(self.addresses.origin.as_str())?
                .build_with_reqwest(self.http.clone())
        });
        made.await.map_err(|cause| transport("making a client for GitHub", &cause))
    }

    fn access(&self) -> Access<'_> {
        Access { http: &self.http, addresses: &self.addresses, repository: &self.repository }
    }
}

/// One request by octocrab, and its whole answer whatever the status. octocrab adds `X-GitHub-Api-Version: 2022-11-28`, and
/// its own name as the user agent; a header that is added to its client is sent beside those, not instead.
pub(super) async fn raw(
    crab: &Octocrab,
    what: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
    headers: Option<HeaderMap>,
) -> Result<Answer, ForgeError> {
    let mut headers = headers.unwrap_or_default();
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/vnd.github+json"));
    let response = match method {
        Method::GET => crab._get_with_headers(path, Some(headers)).await,
        Method::PATCH => crab._patch(path, body).await,
        Method::DELETE => crab._delete(path, body).await,
        _ => crab._post(path, body).await,
    };
    let (parts, mut stream) = response.map_err(|cause| transport(what, &cause))?.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = stream.frame().await {
        let Ok(data) = frame.map_err(|cause| transport(what, &cause))?.into_data() else { continue };
        if body.len() + data.len() > LARGEST_ANSWER {
            let what = format!("{what}: the answer has more than {} MiB", LARGEST_ANSWER >> 20);
            return Err(ForgeError::Failed { what, cause: None });
        }
        body.extend_from_slice(&data);
    }
    Ok(Answer { status: parts.status, headers: parts.headers, body })
}

/// No answer, in octocrab's words.
pub(super) fn transport(what: &str, cause: &octocrab::Error) -> ForgeError {
    // The innermost cause has neither address nor backtrace.
    let mut inner: &dyn std::error::Error = cause;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let cause = std::io::Error::other(inner.to_string());
    ForgeError::Unanswered { what: what.to_owned(), cause: Some(Box::new(cause)) }
}

/// The answer, if it is a success; of GitHub's refusals, those that somebody has to settle first say how.
pub(super) fn judged(answer: Answer, what: &str) -> Result<Answer, ForgeError> {
    if answer.status != StatusCode::FORBIDDEN {
        return answer.judged(what);
    }
    let said = answer.said();
    match way_out(&said) {
        Some(way_out) => Err(ForgeError::Blocked { what: format!("{what} was denied ({said}): {way_out}") }),
        None => answer.judged(what),
    }
}

/// What to do about a refusal in GitHub's words, where that is known.
pub(super) fn way_out(said: &str) -> Option<&'static str> {
    let known = [
        (
            "not permitted to create or approve pull requests",
            "switch on *Allow GitHub Actions to create and approve pull requests* (Settings → Actions → General → \
             Workflow permissions, in the organization too), or give the bot a token of its own",
        ),
        (
            "not accessible by",
            "give the App or token *Contents* and *Pull requests* with write access here; in a workflow: \
             `permissions: {contents: write, pull-requests: write}`",
        ),
        ("archived", "the repository is archived: unarchive it, or take it out of the configuration"),
        ("SAML", "authorize the token for the organization's single sign-on (Settings → Developer settings)"),
        ("Must have", "give the bot's account the role *Write* here"),
    ];
    known.into_iter().find(|(words, _)| said.contains(words)).map(|(_, way_out)| way_out)
}

/// Whether a list goes on. The address that is given for it is left alone: it may name a host that is not the one that was
/// asked.
pub(super) fn has_next(answer: &Answer) -> bool {
    let more = answer.headers.get(LINK).and_then(|link| link.to_str().ok());
    more.is_some_and(|link| link.contains("rel=\"next\""))
}

/// The cursor with which a list goes on. The address beside it is left alone, as everywhere.
pub(super) fn next_cursor(answer: &Answer) -> Option<String> {
    let links = answer.headers.get(LINK)?.to_str().ok()?;
    let link = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    let (from, to) = (link.find('<')?, link.find('>')?);
    let url = reqwest::Url::parse(link.get(from + 1..to)?).ok()?;
    url.query_pairs().find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}

fn location(answer: &Answer) -> Option<&str> {
    answer.headers.get(LOCATION)?.to_str().ok()
}

fn leads_away(what: &str) -> ForgeError {
    let what =
        format!("{what}: redirected to where the bot does not follow (another host, or without `https`)");
    ForgeError::Failed { what, cause: None }
}
