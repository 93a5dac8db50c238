//! Edits YAML text byte for byte: text and edits in, text or a refusal out.
