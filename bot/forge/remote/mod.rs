//! What forges on the network have in common: HTTP with its failures, and a repository that is seen through an API.
//!
//! Which question is asked where is the question of the forge's own module.

pub(super) mod archive;

pub(super) mod board;

pub(super) mod comment;

pub(super) mod compare;

pub(super) mod contents;

pub(super) mod http;

pub(super) mod kept;

pub(super) mod look;

pub(super) mod unfinished;
