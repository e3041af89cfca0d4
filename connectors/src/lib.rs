//! Nilometer.
