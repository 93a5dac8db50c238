//! What the files of the operator may say.
