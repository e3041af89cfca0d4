//! Nilometer.

fn main() {}
