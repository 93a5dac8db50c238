//! The adapter for GitLab, against a forge that holds it to GitLab's schemas and has real git behind it.

mod story;

mod reads;

mod finds;

mod writes;

mod speaks;

mod people;

mod hooks;

mod goes_wrong;

mod judged;
