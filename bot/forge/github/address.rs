//! Where a GitHub's interfaces are, and names as they stand in an address.

use reqwest::Url;

use crate::forge::ForgeError;
use crate::forge::remote::http::part;
use crate::forge::settings::Settings;

/// The addresses of one GitHub. Everything is asked at `origin`, by paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    /// `https://api.github.com`, `https://github.example.com`.
    pub(super) origin: String,
    /// What stands before the paths of REST: nothing, or `/api/v3`.
    pub(super) rest: String,
    /// The path of GraphQL: `/graphql`, or `/api/graphql`.
    pub(super) graphql: String,
    /// Where people open it: the host of e-mail addresses that it gives out.
    pub(super) host: String,
}

impl Addresses {
    /// Those of the account.
    ///
    /// # Errors
    /// When an address is none.
    pub(super) fn new(settings: &Settings) -> Result<Self, ForgeError> {
        let parsed = |setting: &str, text: &str| {
            let url = Url::parse(text).ok().filter(|url| url.host_str().is_some());
            url.ok_or_else(|| ForgeError::Blocked { what: format!("`{setting}` is no address: `{text}`") })
        };
        let url = parsed("url", settings.url.as_deref().unwrap_or("https://github.com"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let api = match &settings.api_url {
            Some(api) => parsed("api_url", api)?,
            // The cloud has its interface on a host of its own, a server below a path.
            None if host == "github.com" || host.ends_with(".ghe.com") => {
                parsed("url", &format!("https://api.{host}"))?
            }
            None => {
                let base = url.as_str().trim_end_matches('/');
                parsed("url", &format!("{base}/api/v3"))?
            }
        };
        let rest = api.path().trim_end_matches('/').to_owned();
        let graphql = match rest.strip_suffix("/api/v3") {
            Some(before) => format!("{before}/api/graphql"),
            None => format!("{rest}/graphql"),
        };
        Ok(Self { origin: api.origin().ascii_serialization(), rest, graphql, host })
    }

    /// The path and query that `location` leads to from `path`, if it stays at the origin.
    pub(super) fn same_origin(&self, path: &str, location: &str) -> Option<String> {
        let from = Url::parse(&format!("{}{path}", self.origin)).ok()?;
        let to = from.join(location).ok()?;
        let query = to.query().map(|query| format!("?{query}")).unwrap_or_default();
        (to.origin() == from.origin()).then(|| format!("{}{query}", to.path()))
    }
}

/// `text` as parts of a path, slash by slash.
pub(super) fn parts(text: &str) -> String {
    text.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: Option<&str>, api_url: Option<&str>) -> [String; 4] {
        let settings = Settings {
            url: url.map(str::to_owned),
            api_url: api_url.map(str::to_owned),
            ..Settings::default()
        };
        let Addresses { origin, rest, graphql, host } = Addresses::new(&settings).unwrap();
        [origin, rest, graphql, host]
    }

    #[test]
    fn each_github_has_its_interfaces_elsewhere() {
        assert_eq!(addresses(None, None), ["https://api.github.com", "", "/graphql", "github.com"]);
        assert_eq!(
            addresses(Some("https://octo.ghe.com/"), None),
            ["https://api.octo.ghe.com", "", "/graphql", "octo.ghe.com"]
        );
        assert_eq!(
            addresses(Some("https://git.example.com:8443"), None),
            ["https://git.example.com:8443", "/api/v3", "/api/graphql", "git.example.com"]
        );
        assert_eq!(
            addresses(Some("https://git.example.com"), Some("https://proxy.example.com/gh/api/v3/")),
            ["https://proxy.example.com", "/gh/api/v3", "/gh/api/graphql", "git.example.com"]
        );
    }

    #[test]
    fn a_redirection_is_followed_at_the_origin_only() {
        let settings = Settings { url: Some("https://git.example.com".into()), ..Settings::default() };
        let ours = Addresses::new(&settings).unwrap();
        let to = |location: &str| ours.same_origin("/api/v3/repos/a/b", location);
        assert_eq!(
            to("https://git.example.com/api/v3/repositories/7?x=1").as_deref(),
            Some("/api/v3/repositories/7?x=1")
        );
        assert_eq!(to("/api/v3/repositories/7").as_deref(), Some("/api/v3/repositories/7"));
        for elsewhere in
            ["https://git.example.com.evil.example/x", "http://git.example.com/x", "//evil.example/x"]
        {
            assert_eq!(to(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place() {
        assert_eq!(parts("a b/c#d?e"), "a%20b/c%23d%3Fe");
    }
}
