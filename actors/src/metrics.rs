//! Every metric of the actors: its name and its one recording function.
