//! Pages for people who look at the server: the same facts as on the forge, read-only.
//!
//! Every value is escaped on its way in. The text of a proposal is Markdown of ours; of the HTML in it only what our own
//! templates write survives.

use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde::Serialize;
use slicewright_core::review::metadata::strip;

use super::RenderError;

/// The style sheet of all pages.
pub const STYLE: &str = concat!(
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/dashboard/colours.css")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/dashboard/style.css")),
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/picture/picture.css")),
);

/// Steps that one page may take: some 100 a row.
const FUEL: u64 = 20_000_000;

/// A page with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HtmlPage {
    /// All pools.
    Overview,
    /// One pool.
    Pool,
    /// Why there is nothing to see.
    Problem,
}

impl HtmlPage {
    fn template(self) -> &'static str {
        match self {
            Self::Overview => "overview.html",
            Self::Pool => "pool.html",
            Self::Problem => "problem.html",
        }
    }
}

macro_rules! pages {
    ($($name:literal),*) => {
        const TEMPLATES: &[(&str, &str)] = &[$((
            $name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/templates/dashboard/", $name))
        )),*];
    };
}

pages!["layout.html", "overview.html", "picture.html", "pool.html", "problem.html"];

/// Fills a page with the fields of `view`.
///
/// # Errors
/// When its template is broken.
pub fn html(page: HtmlPage, view: &impl Serialize) -> Result<String, RenderError> {
    let broken = |cause| RenderError { template: page.template().to_owned(), cause };
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    for (name, text) in TEMPLATES {
        environment.add_template(name, text).map_err(broken)?;
    }
    environment.add_filter("markdown", |text: &str| minijinja::Value::from_safe_string(markdown(text)));
    let template = environment.get_template(page.template()).map_err(broken)?;
    template.render(minijinja::Value::from(minijinja::value::Serde(view))).map_err(broken)
}

/// Tags that our own texts hold.
const OURS: [&str; 4] = ["<details>", "</details>", "<summary>", "</summary>"];

/// What is around a table or a block of code.
const FRAME: &str = "<div class=\"wide\" tabindex=\"0\">";

/// Markdown of a proposal as HTML.
fn markdown(text: &str) -> String {
    let text = strip(text);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let frame = |html: &'static str| Event::Html(html.into());
    let events = Parser::new_ext(&text, options).flat_map(|event| match event {
        Event::Html(html) => vec![Event::Html(only_ours(&html).into())],
        Event::InlineHtml(html) => vec![Event::InlineHtml(only_ours(&html).into())],
        // Wide ones are moved by themselves, with a keyboard too.
        Event::Start(Tag::Table(_)) => vec![frame(FRAME), event],
        Event::Start(Tag::CodeBlock(_)) => vec![frame(FRAME), event],
        Event::End(TagEnd::CodeBlock) => vec![event, frame("</div>\n")],
        Event::End(TagEnd::Table) => vec![event, frame("</div>\n")],
        other => vec![other],
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, events);
    out
}

/// Everything but our own tags as the text that it is.
fn only_ours(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&escaped(&rest[..at]));
        rest = &rest[at..];
        match OURS.iter().find(|tag| rest.starts_with(**tag)) {
            Some(tag) => {
                out.push_str(tag);
                rest = &rest[tag.len()..];
            }
            None => {
                out.push_str("&lt;");
                rest = &rest[1..];
            }
        }
    }
    out.push_str(&escaped(rest));
    out
}

/// Entities that stand there are left: they are how a text of ours writes what is no tag.
fn escaped(text: &str) -> String {
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_html_in_a_text_only_our_own_survives() {
        let text = "# a\n\n<details>\n<summary>x</summary>\n\n| a | b |\n| --- | --- |\n| 1 | <b onclick=x>2 |\n\n</details>\n\n\
                    <script>alert(1)</script>\n\n[x](javascript:alert(1)) `<i>`";
        let html = markdown(text);
        for bad in ["<script", "<b ", "<i>"] {
            assert!(!html.contains(bad), "{bad}: {html}");
        }
        for good in ["<details>", "<summary>x</summary>", "<table>", "<h1>a</h1>", "&lt;script&gt;"] {
            assert!(html.contains(good), "{good}: {html}");
        }
    }

    #[test]
    fn values_are_words_on_every_page() {
        let hostile = "<script>alert(1)</script>\"'";
        let page = json!({"title": hostile, "version": hostile, "now": hostile, "what": hostile});
        let text = html(HtmlPage::Problem, &page).unwrap();
        assert!(!text.contains("<script"), "{text}");
        let pool = json!({
            "title": hostile, "version": "1", "now": "n", "cluster": hostile, "pool": hostile, "section": hostile,
            "cards_freed": 1, "as_of": hostile, "action": hostile, "reason": hostile, "url": hostile, "body": hostile,
            "summary": hostile, "pictures": {
                "packing": {"wide": "<svg/>", "narrow": ""}, "n_more": 1,
                "workloads": [{"summary": hostile, "history": null, "evidence": hostile}],
            },
        });
        let text = html(HtmlPage::Pool, &pool).unwrap();
        assert!(!text.contains("<script") && text.contains("<svg/>"), "{text}");
    }
}
