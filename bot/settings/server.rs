//! What the file may say about the server: where it listens, what tells it of changes, when it looks by itself.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use secrecy::SecretString;
use serde::Deserialize;

use super::cron::Moment;
use super::secret::{SecretError, SecretPlace};
use crate::forge::settings::Settings as ForgeSettings;
use crate::store::settings::Settings as StoreSettings;

/// Longest a random delay may be that a look waits, so that many clusters do not ask at once.
const MOST_JITTER: Duration = Duration::from_secs(6 * 3600);

/// `server:` in the service configuration. Every field is documented in `config/example.yaml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Address and port. Default `127.0.0.1:8080`.
    pub listen: Option<String>,
    /// Where forges and people reach it: `https://slicewright.example.com`.
    pub url: Option<String>,
    /// Certificate and key; without, it speaks plain HTTP, for a proxy in front of it.
    pub tls: Option<TlsSettings>,
    /// Forges that tell it of changes.
    pub hooks: Vec<HookSettings>,
    /// What it remembers.
    pub store: StoreSettings,
    /// When clusters are looked at that say nothing else.
    pub schedule: ScheduleSettings,
    /// Jobs at once, answers to comments aside. Default 2.
    pub workers: Option<u32>,
    /// Commands that one person may give in an hour. Default 10.
    pub commands_per_hour: Option<u32>,
    /// Seconds for which a server that is gone holds its jobs up, on PostgreSQL. Default 60.
    pub lease_seconds: Option<u32>,
    /// Who may read its pages.
    pub pages: PagesSettings,
}

/// Certificate and key for HTTPS, PEM. Read at the start and with the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsSettings {
    /// The certificate, with those above it.
    pub certificate_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
}

/// What one forge signs its deliveries with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookSettings {
    /// One of `forges`, by its name. The address is `/hooks/<kind>/<name>`.
    pub forge: String,
    /// The webhook's secrets on GitHub, signing tokens (`whsec_…`) on GitLab. Several while one follows the other.
    pub secrets: Vec<SecretPlace>,
    /// On GitLab: secret tokens, which are sent as they are; for a GitLab that cannot sign.
    pub tokens: Vec<SecretPlace>,
}

/// When to look.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleSettings {
    /// Minute, hour, day, month, day of week. Default `17 */6 * * *`.
    pub cron: Option<String>,
    /// Time zone of that, `Europe/Berlin`. Default UTC.
    pub time_zone: Option<String>,
    /// Minutes that a look is put off by chance. Default 10.
    pub jitter_minutes: Option<u32>,
}

/// Who may read the pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PagesSettings {
    /// They are there. Default true.
    pub enabled: Option<bool>,
    /// Name for basic authentication.
    pub user: Option<String>,
    /// File with its password.
    pub password_file: Option<PathBuf>,
    /// Header in which a proxy says who was let in, `X-Forwarded-User`: requests without it are refused. Only for a server
    /// that nobody reaches but through that proxy.
    pub forwarded_user_header: Option<String>,
}

/// A schedule that was understood.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: croner::Cron,
    zone: TimeZone,
    /// Most that a look is put off by.
    pub jitter: Duration,
    /// As it was written, to see that it changed.
    pub spec: String,
}

impl Schedule {
    /// The first moment after `now` that it names. `None`: there is none any more.
    pub fn next(&self, now: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let now = Moment { at: now, zone: self.zone.clone() };
        Some(self.cron.find_next_occurrence(&now, false).ok()?.at)
    }
}

impl ScheduleSettings {
    /// What is said here, and else there.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            cron: self.cron.clone().or_else(|| other.cron.clone()),
            time_zone: self.time_zone.clone().or_else(|| other.time_zone.clone()),
            jitter_minutes: self.jitter_minutes.or(other.jitter_minutes),
        }
    }

    /// The schedule; what is not said here is as in `otherwise`.
    ///
    /// # Errors
    /// The setting that cannot be meant, and why.
    pub fn read(&self, otherwise: Option<&Self>) -> Result<Schedule, (&'static str, String)> {
        let said = otherwise.map_or_else(|| self.clone(), |other| self.or(other));
        let cron = said.cron.as_deref().unwrap_or("17 */6 * * *");
        let zone_name = said.time_zone.as_deref().unwrap_or("UTC");
        let minutes = said.jitter_minutes.unwrap_or(10);
        let parsed = croner::parser::CronParser::new()
            .parse(cron)
            .map_err(|error| ("cron", format!("`{cron}` is no schedule, such as `17 */6 * * *`: {error}")))?;
        let zone = TimeZone::get(zone_name)
            .map_err(|_| ("time_zone", format!("`{zone_name}` is no time zone, such as `Europe/Berlin`")))?;
        let jitter = Duration::from_secs(u64::from(minutes) * 60);
        if jitter > MOST_JITTER {
            return Err(("jitter_minutes", "must be at most 360".to_owned()));
        }
        Ok(Schedule { cron: parsed, zone, jitter, spec: format!("{cron} {zone_name} {minutes}") })
    }
}

impl ServerSettings {
    /// Address and port to listen on.
    pub fn listen(&self) -> &str {
        self.listen.as_deref().unwrap_or("127.0.0.1:8080")
    }

    /// Jobs at once.
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or(2)
    }

    /// Commands that one person may give in an hour.
    pub fn commands_per_hour(&self) -> u32 {
        self.commands_per_hour.unwrap_or(10)
    }

    /// How long a job is somebody's who says nothing.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds.unwrap_or(60)))
    }

    /// What is read at the start alone, by name: another value holds when the server starts anew.
    pub fn fixed(&self) -> [(&'static str, String); 5] {
        [
            ("listen", self.listen().to_owned()),
            ("tls", if self.tls.is_some() { "on" } else { "off" }.to_owned()),
            ("store", self.store.shown()),
            ("workers", self.workers().to_string()),
            ("pages", format!("{:?}", self.pages)),
        ]
    }

    /// Every file that is named here, to be made absolute.
    pub(super) fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        let mut files: Vec<&mut PathBuf> = Vec::new();
        if let Some(tls) = &mut self.tls {
            files.extend([&mut tls.certificate_file, &mut tls.key_file]);
        }
        for hook in &mut self.hooks {
            let places = hook.secrets.iter_mut().chain(&mut hook.tokens);
            files.extend(places.filter_map(|place| place.file.as_mut()));
        }
        files.extend(self.store.files_mut());
        files.extend(self.pages.password_file.as_mut());
        files
    }

    /// The first value that cannot be meant, as setting and what is wrong with it. `forges` are those that there are.
    ///
    /// # Errors
    /// A hook without a secret, a schedule that is none.
    pub(super) fn check(&self, forges: &[ForgeSettings]) -> Result<(), (String, String)> {
        let wrong = |setting: String, problem: &str| Err((setting, problem.to_owned()));
        if self.listen().parse::<std::net::SocketAddr>().is_err() {
            return wrong(
                "listen".into(),
                "give an address with a port, such as `127.0.0.1:8080` or `[::]:8080`",
            );
        }
        if let Some(url) = &self.url
            && !(url.starts_with("https://") || url.starts_with("http://"))
        {
            return wrong("url".into(), "must start with `https://`");
        }
        let mut names = BTreeSet::new();
        for (n, hook) in self.hooks.iter().enumerate() {
            let at = |field: &str| format!("hooks[{n}].{field}");
            let Some(forge) = forges.iter().find(|forge| forge.name == hook.forge) else {
                return wrong(at("forge"), "is none of `forges`");
            };
            if !names.insert(&hook.forge) {
                return wrong(at("forge"), "is named twice: give all of its secrets in one place");
            }
            if hook.secrets.is_empty() && hook.tokens.is_empty() {
                return wrong(
                    at("secrets"),
                    "give at least one: without a secret anybody could send deliveries",
                );
            }
            if !forge.sends_tokens() && !hook.tokens.is_empty() {
                return wrong(at("tokens"), "are for GitLab: GitHub signs, with one of `secrets`");
            }
            let mut places = hook.secrets.iter().chain(&hook.tokens);
            if places.any(|place| place.file.is_some() == place.env.is_some()) {
                return wrong(at("secrets"), "give either `file` or `env` for each");
            }
        }
        if let Err((field, problem)) = self.store.check() {
            return Err((format!("store.{field}"), problem));
        }
        if let Err((field, problem)) = self.schedule.read(None) {
            return Err((format!("schedule.{field}"), problem));
        }
        if !(1..=64).contains(&self.workers()) {
            return wrong("workers".into(), "must be between 1 and 64");
        }
        if !(1..=1_000).contains(&self.commands_per_hour()) {
            return wrong("commands_per_hour".into(), "must be between 1 and 1000");
        }
        if !(5..=3_600).contains(&self.lease().as_secs()) {
            return wrong("lease_seconds".into(), "must be between 5 and 3600");
        }
        if self.pages.user.is_some() != self.pages.password_file.is_some() {
            return wrong(
                "pages.password_file".into(),
                "give `user` and `password_file` together, or neither",
            );
        }
        Ok(())
    }
}

impl HookSettings {
    /// What the forge's deliveries may be signed with: `secrets`, then `tokens`.
    ///
    /// # Errors
    /// When one is not there, or too short to be a secret.
    pub fn read(&self) -> Result<[Vec<SecretString>; 2], SecretError> {
        let read = |places: &[SecretPlace]| places.iter().map(SecretPlace::read_text).collect();
        let (secrets, tokens): (Result<_, _>, Result<_, _>) = (read(&self.secrets), read(&self.tokens));
        Ok([secrets?, tokens?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> jiff::Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_schedule_names_moments_in_its_time_zone() {
        let settings = ScheduleSettings {
            cron: Some("30 5 * * Mon-Fri".into()),
            time_zone: Some("Europe/Berlin".into()),
            jitter_minutes: None,
        };
        let schedule = settings.read(None).unwrap();
        // Friday evening; Monday is after the clocks went forward.
        assert_eq!(schedule.next(at("2026-03-27T18:00:00Z")), Some(at("2026-03-30T03:30:00Z")));
        let daily = ScheduleSettings { cron: Some("0 3 * * *".into()), ..ScheduleSettings::default() };
        let both = daily.read(Some(&settings)).unwrap();
        assert_eq!(both.next(at("2026-03-27T18:00:00Z")), Some(at("2026-03-28T02:00:00Z")));
        assert_ne!(both.spec, schedule.spec);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
        let forges: [ForgeSettings; 2] = ["{name: github}", "{name: gitlab, kind: gitlab}"]
            .map(|text| serde_saphyr::from_str(text).unwrap());
        let place = || SecretPlace { env: Some("S".into()), file: None };
        let hook = |forge: &str, secrets: Vec<SecretPlace>, tokens: Vec<SecretPlace>| ServerSettings {
            hooks: vec![HookSettings { forge: forge.into(), secrets, tokens }],
            ..ServerSettings::default()
        };
        let cron = |text: &str| ScheduleSettings { cron: Some(text.into()), ..ScheduleSettings::default() };
        for (settings, setting) in [
            (ServerSettings { listen: Some("8080".into()), ..ServerSettings::default() }, "listen"),
            (ServerSettings { url: Some("example.com".into()), ..ServerSettings::default() }, "url"),
            (hook("other", vec![place()], vec![]), "hooks[0].forge"),
            (hook("github", vec![], vec![]), "hooks[0].secrets"),
            (hook("github", vec![], vec![place()]), "hooks[0].tokens"),
            (hook("gitlab", vec![SecretPlace::default()], vec![]), "hooks[0].secrets"),
            (ServerSettings { schedule: cron("every day"), ..ServerSettings::default() }, "schedule.cron"),
            (ServerSettings { workers: Some(0), ..ServerSettings::default() }, "workers"),
            (
                ServerSettings {
                    pages: PagesSettings { user: Some("x".into()), ..PagesSettings::default() },
                    ..ServerSettings::default()
                },
                "pages.password_file",
            ),
        ] {
            assert_eq!(settings.check(&forges).unwrap_err().0, setting);
        }
        assert_eq!(hook("gitlab", vec![], vec![place()]).check(&forges), Ok(()));
        assert_eq!(ServerSettings::default().check(&forges), Ok(()));
    }
}
