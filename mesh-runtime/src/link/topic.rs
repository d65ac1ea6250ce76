//! Topics, topic filters, and which filter matches which topic (MQTT 5, §4.7).
//!
//! Both are refused when they begin with `$`: `$SYS` belongs to the broker, and a shared subscription (`$share`) whose
//! only member drops out ends the embedded broker.

use thiserror::Error;

/// Longest topic or filter in bytes. Longer ones are refused; MQTT itself would allow 65,535.
pub const MAX_TOPIC_BYTES: usize = 256;

/// A topic that messages are published on: levels separated by `/`, without wildcards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(String);

/// A topic filter: `+` stands for one level, a final `#` for any number of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(String);

/// Why a text is not a topic or not a filter. Does not repeat the text: topics of peers are none of a log's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// It has no characters.
    #[error("a topic must not be empty")]
    Empty,
    /// It is longer than [`MAX_TOPIC_BYTES`].
    #[error("a topic has at most {MAX_TOPIC_BYTES} bytes, this one has {0}")]
    TooLong(usize),
    /// It begins with `$`.
    #[error("a topic must not begin with `$`")]
    Reserved,
    /// It contains a control character.
    #[error("a topic must not contain control characters")]
    Control,
    /// A topic with `+` or `#`.
    #[error("a topic to publish on must not contain `+` or `#`")]
    Wildcard,
    /// A filter in which `+` is not a whole level or `#` not the whole last one.
    #[error("`+` must be a whole level of a filter, `#` its whole last level")]
    MisplacedWildcard,
}

impl Topic {
    /// Reads a topic.
    ///
    /// # Errors
    /// See [`TopicError`].
    pub fn new(text: impl Into<String>) -> Result<Self, TopicError> {
        let text = text.into();
        check_characters(&text)?;
        if text.contains(['+', '#']) {
            return Err(TopicError::Wildcard);
        }
        Ok(Self(text))
    }

    /// The topic as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// See [`TopicError`].
    pub fn new(text: impl Into<String>) -> Result<Self, TopicError> {
        let text = text.into();
        check_characters(&text)?;
        let mut levels = text.split('/').peekable();
        while let Some(level) = levels.next() {
            let fits = match level {
                "+" => true,
                "#" => levels.peek().is_none(),
                name => !name.contains(['+', '#']),
            };
            if !fits {
                return Err(TopicError::MisplacedWildcard);
            }
        }
        Ok(Self(text))
    }

    /// The filter as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether messages on this topic are meant.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut levels = topic.0.split('/');
        for wanted in self.0.split('/') {
            // `a/#` matches `a` as well, so `#` is looked at before the topic may have run out of levels.
            if wanted == "#" {
                return true;
            }
            match levels.next() {
                Some(level) if wanted == "+" || wanted == level => {}
                _ => return false,
            }
        }
        levels.next().is_none()
    }
}

impl From<Topic> for Filter {
    fn from(topic: Topic) -> Self {
        Self(topic.0)
    }
}

fn check_characters(text: &str) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > MAX_TOPIC_BYTES {
        return Err(TopicError::TooLong(text.len()));
    }
    if text.starts_with('$') {
        return Err(TopicError::Reserved);
    }
    if text.contains(char::is_control) {
        return Err(TopicError::Control);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference: MQTT 5, §4.7.1.2 and §4.7.1.3, with the examples given there.
    #[test]
    fn filters_match_as_the_standard_says() {
        let cases = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/tennis/player1/#", "sport/tennis/player2", false),
            ("sport/#", "sport", true),
            ("#", "any/topic", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/b/c", "a/b", false),
        ];
        for (filter, topic, expected) in cases {
            let matches = Filter::new(filter).unwrap().matches(&Topic::new(topic).unwrap());
            assert_eq!(matches, expected, "`{filter}` and `{topic}`");
        }
    }

    /// Reference: MQTT 5, §4.7.1: where wildcards may stand; the rest are our own limits.
    #[test]
    fn malformed_topics_and_filters_are_refused() {
        assert_eq!(Topic::new(""), Err(TopicError::Empty));
        assert_eq!(Topic::new("a/+"), Err(TopicError::Wildcard));
        assert_eq!(Topic::new("a/#"), Err(TopicError::Wildcard));
        assert_eq!(Topic::new("a\0b"), Err(TopicError::Control));
        assert_eq!(Topic::new("$SYS/uptime"), Err(TopicError::Reserved));
        assert_eq!(Topic::new("a".repeat(MAX_TOPIC_BYTES + 1)), Err(TopicError::TooLong(MAX_TOPIC_BYTES + 1)));
        assert!(Topic::new("a".repeat(MAX_TOPIC_BYTES)).is_ok());
        for filter in ["sport+", "sport/tennis#", "sport/tennis/#/ranking", "+a/b", "##"] {
            assert_eq!(Filter::new(filter), Err(TopicError::MisplacedWildcard), "`{filter}`");
        }
        assert_eq!(Filter::new("$share/group/a"), Err(TopicError::Reserved));
    }
}
