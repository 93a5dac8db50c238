//! JSON of the query API → labelled samples, without ever holding the tree.
//!
//! Answers are normalised: sorted by labels, values that are not finite left out. The same data gives the same bytes
//! whatever the order in which a server prints it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// An answer in full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// One series a row, sorted by labels.
    pub series: Vec<Series>,
    /// What the server says it took, where it says so.
    pub server_seconds: Option<f64>,
    /// Size of the answer in bytes, uncompressed.
    pub bytes: u64,
    /// The server's warnings: something is missing.
    pub warnings: Vec<String>,
}

/// A series with its samples: one for an instant vector, many for a range selector.
///
/// Serialised as `[{"label": "value"}, [[milliseconds, value]]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Labels, sorted by name. Empty values are as good as absent and are left out.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Samples, oldest first.
    pub samples: Vec<Sample>,
}

impl Serialize for Series {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let labels: BTreeMap<&str, &str> = self.labels.iter().map(|(k, v)| (&**k, &**v)).collect();
        (labels, &self.samples).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Series {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (labels, samples) = <(BTreeMap<String, String>, Vec<Sample>)>::deserialize(deserializer)?;
        let labels = labels.into_iter().map(|(name, value)| (Arc::from(name), Arc::from(value))).collect();
        Ok(Self { labels, samples })
    }
}

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample(
    /// Milliseconds since 1970.
    pub i64,
    /// Always finite.
    pub f64,
);

impl Series {
    /// A label's value; `None` when absent, empty or one of DCGM's blanks (`<<<NULL>>>`).
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .binary_search_by(|(label, _)| (**label).cmp(name))
            .ok()
            .map(|i| &*self.labels[i].1)
            .filter(|value| !(value.is_empty() || value.starts_with("<<<") && value.ends_with(">>>")))
    }

    /// The first of several labels that is there: `exported_pod`, else `pod`.
    pub fn first_label(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.label(name))
    }

    /// The last value.
    pub fn value(&self) -> Option<f64> {
        self.samples.last().map(|sample| sample.1)
    }
}

/// What the server said instead of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) kind: String,
    pub(super) text: String,
}

/// Why bytes are not an answer.
#[derive(Debug, PartialEq)]
pub(super) enum NotAnAnswer {
    /// `"status":"error"`.
    Complaint(Complaint),
    /// Not this API's JSON.
    Malformed(String),
}

/// Reads a whole answer. For fuzzing: no input panics, and memory stays within a small multiple of the input.
///
/// # Errors
/// The server's own error text, or why the bytes are not an answer.
pub fn parse_answer(bytes: &[u8]) -> Result<Answer, String> {
    parse(bytes).map_err(|error| match error {
        NotAnAnswer::Complaint(complaint) => format!("{}: {}", complaint.kind, complaint.text),
        NotAnAnswer::Malformed(why) => why,
    })
}

pub(super) fn parse(bytes: &[u8]) -> Result<Answer, NotAnAnswer> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let mut names = Interner::default();
    let raw = BodySeed { names: &mut names }
        .deserialize(&mut reader)
        .map_err(|error| NotAnAnswer::Malformed(error.to_string()))?;
    reader.end().map_err(|error| NotAnAnswer::Malformed(error.to_string()))?;
    match raw.status.as_deref() {
        Some("success") => {}
        Some("error") => return Err(NotAnAnswer::Complaint(raw.complaint)),
        _ => return Err(NotAnAnswer::Malformed("no `status` of a query API".to_owned())),
    }
    let Some(data) = raw.data else {
        return Err(NotAnAnswer::Malformed("no `data` in the answer".to_owned()));
    };
    let mut warnings = raw.warnings;
    if raw.partial {
        warnings.push("isPartial: the answer lacks a part of the data".to_owned());
    }
    let mut series = data.series;
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(Answer {
        series,
        server_seconds: data.seconds.or(raw.stats_seconds),
        bytes: bytes.len() as u64,
        warnings,
    })
}

#[derive(Default)]
struct Body {
    status: Option<String>,
    complaint: Complaint,
    data: Option<Data>,
    warnings: Vec<String>,
    partial: bool,
    stats_seconds: Option<f64>,
}

#[derive(Default)]
struct Data {
    series: Vec<Series>,
    seconds: Option<f64>,
}

#[derive(Default)]
struct Interner(HashSet<Arc<str>>);

impl Interner {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(found) = self.0.get(text) {
            return Arc::clone(found);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}

struct BodySeed<'a> {
    names: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = Body;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Body, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = Body;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of the Prometheus query API")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
        let mut body = Body::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "status" => body.status = map.next_value()?,
                "errorType" => body.complaint.kind = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "error" => body.complaint.text = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "warnings" => body.warnings = map.next_value::<Option<Vec<String>>>()?.unwrap_or_default(),
                "isPartial" => body.partial = map.next_value::<Option<bool>>()?.unwrap_or_default(),
                "data" => body.data = map.next_value_seed(DataSeed { names: self.names })?,
                // VictoriaMetrics prints `executionTimeMsec` here, and its own `isPartial`.
                "stats" => {
                    let stats: VmStats = map.next_value()?;
                    body.stats_seconds = stats.milliseconds.map(|ms| ms / 1e3);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(body)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct VmStats {
    #[serde(rename = "executionTimeMsec", deserialize_with = "lenient_number")]
    milliseconds: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stats {
    timings: Timings,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Timings {
    #[serde(rename = "evalTotalTime")]
    eval: Option<f64>,
    #[serde(rename = "execTotalTime")]
    exec: Option<f64>,
}

/// A number, or a string that holds one (versions of VictoriaMetrics differ), else nothing.
fn lenient_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
        Other(IgnoredAny),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Number(number) => Some(number),
        Either::Text(text) => text.parse().ok(),
        Either::Other(_) => None,
    })
}

struct DataSeed<'a> {
    names: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for DataSeed<'_> {
    type Value = Option<Data>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Data>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DataSeed<'_> {
    type Value = Option<Data>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`resultType` and `result`")
    }
    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut data = Data::default();
        let mut seen = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "resultType" => match map.next_value::<String>()?.as_str() {
                    "vector" | "matrix" => {}
                    other => {
                        return Err(de::Error::custom(format!("result type `{other}` was not asked for")));
                    }
                },
                "result" => {
                    data.series = map.next_value_seed(RowsSeed { names: &mut *self.names })?;
                    seen = true;
                }
                "stats" => {
                    let stats: Option<Stats> = map.next_value()?;
                    data.seconds = stats
                        .and_then(|stats| stats.timings.exec.or(stats.timings.eval))
                        .filter(|s| s.is_finite());
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(seen.then_some(data))
    }
}

struct RowsSeed<'a> {
    names: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for RowsSeed<'_> {
    type Value = Vec<Series>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Series>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsSeed<'_> {
    type Value = Vec<Series>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of series")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Series>, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = seq.next_element_seed(RowSeed { names: &mut *self.names })? {
            if !row.samples.is_empty() {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

struct RowSeed<'a> {
    names: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Series;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Series, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Series;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series with `metric` and `value` or `values`")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Series, A::Error> {
        let mut row = Series::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metric" => row.labels = map.next_value_seed(LabelsSeed { names: &mut *self.names })?,
                "value" => row.samples.extend(map.next_value::<RawSample>()?.finite()),
                "values" => {
                    let samples: Vec<RawSample> = map.next_value()?;
                    row.samples.extend(samples.iter().filter_map(RawSample::finite));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(row)
    }
}

struct LabelsSeed<'a> {
    names: &'a mut Interner,
}

impl<'de> DeserializeSeed<'de> for LabelsSeed<'_> {
    type Value = Vec<(Arc<str>, Arc<str>)>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LabelsSeed<'_> {
    type Value = Vec<(Arc<str>, Arc<str>)>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut labels = Vec::new();
        while let Some((name, value)) =
            map.next_entry::<std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>>()?
        {
            if !value.is_empty() {
                labels.push((self.names.get(&name), self.names.get(&value)));
            }
        }
        labels.sort();
        labels.dedup_by(|a, b| a.0 == b.0);
        Ok(labels)
    }
}

/// `[1768435199.999, "7987"]`.
#[derive(Deserialize)]
struct RawSample(f64, String);

impl RawSample {
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked before the cast")]
    fn finite(&self) -> Option<Sample> {
        let value: f64 = self.1.parse().ok()?;
        let milliseconds = (self.0 * 1e3).round();
        (value.is_finite() && milliseconds.abs() < 1e15).then_some(Sample(milliseconds as i64, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Answer {
        parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn vectors_are_sorted_and_not_finite_values_left_out() {
        let answer = parsed(
            r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"UUID":"GPU-b","pod":""},"value":[1768435199.999,"7987"]},
            {"metric":{"UUID":"GPU-c"},"value":[1,"NaN"]},
            {"metric":{"UUID":"GPU-a"},"value":[1,"+Inf"]},
            {"metric":{"UUID":"GPU-a"},"value":[1,"1e+02"]}],
            "stats":{"timings":{"evalTotalTime":0.5,"execTotalTime":0.75},"samples":{"peakSamples":3}}}}"#,
        );
        let rows: Vec<_> =
            answer.series.iter().map(|row| (row.label("UUID").unwrap(), row.value())).collect();
        assert_eq!(rows, [("GPU-a", Some(100.0)), ("GPU-b", Some(7_987.0))]);
        assert_eq!(answer.series[1].label("pod"), None);
        assert_eq!(answer.series[1].samples[0].0, 1_768_435_199_999);
        assert_eq!(answer.server_seconds, Some(0.75));
    }

    #[test]
    fn matrices_keep_their_samples() {
        let answer = parsed(
            r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{},"values":[[1,"1"],[2,"NaN"],[3,"3"]]}]}}"#,
        );
        assert_eq!(answer.series[0].samples, [Sample(1_000, 1.0), Sample(3_000, 3.0)]);
    }

    #[test]
    fn warnings_and_partial_answers_are_told() {
        let warned = parsed(
            r#"{"status":"success","warnings":["store down"],"infos":["fine"],"data":{"resultType":"vector","result":[]}}"#,
        );
        assert_eq!(warned.warnings, ["store down"]);
        let partial =
            parsed(r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}"#);
        assert_eq!(partial.warnings.len(), 1);
    }

    #[test]
    fn complaints_are_not_empty_answers() {
        let text = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
        assert_eq!(parse_answer(text.as_bytes()), Err("execution: too many samples".to_owned()));
        assert!(parse_answer(b"{}").is_err());
        assert!(parse_answer(br#"{"status":"success"}"#).is_err());
        assert!(
            parse_answer(br#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#).is_err()
        );
        assert!(parse_answer(b"<html>").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_answer(&bytes);
        }

        #[test]
        fn no_broken_answer_panics(cut in 0usize..200, with in any::<u8>(), at in 0usize..200) {
            let mut text = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"UUID":"GPU-a","pod":"x"},"value":[1768435199.999,"7987"]}],"stats":{"timings":{}}}}"#.to_vec();
            let at = at % text.len();
            text[at] = with;
            text.truncate(text.len() - cut.min(text.len()));
            let _ = parse_answer(&text);
        }

        #[test]
        fn every_finite_value_survives(value in proptest::num::f64::NORMAL, label in "[^\u{0}]{1,20}") {
            let text = serde_json::json!({"status":"success","data":{"resultType":"vector","result":[
                {"metric":{"l": label}, "value":[0, value.to_string()]}]}}).to_string();
            let answer = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(answer.series[0].value(), Some(value));
            prop_assert_eq!(answer.series[0].label("l"), Some(label.as_str()));
        }
    }
}
