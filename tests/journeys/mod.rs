//! Whole stories, through the program as a user starts it.

mod beside;
mod bot;

mod golden;

mod settled;

mod stage;

mod proposals;

mod closed;

mod faulty;

mod meddling;

mod on_forges;

mod life;

mod commands;

mod served;

mod settings;

mod offline;

mod fleet;

mod slices;

mod new_pool;

mod forge_github;

mod rendered;

mod pictures;

mod forge_gitlab;

mod store;
