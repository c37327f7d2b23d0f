//! What lists of launches differ in: how many columns, which part of the program, how far back attention reaches; and what a kernel of
//! a list is for.

use rawloop_spec::contract::KEY_BLOCK;

/// What a launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Embed,
    Project,
    Combine,
    Qkv(usize),
    Attend(usize),
    Output(usize),
    GateUp(usize),
    Down(usize),
    /// Gate, up and down of a layer.
    Ffn(usize),
    PleGate(usize),
    PleProjection(usize),
    /// Both of a layer's per-layer embedding.
    Ple(usize),
    Final,
    Head,
    Pick,
    Draw,
    Other,
}

/// How far back the columns of a pass may look in full layers: decides the grid of attention, not a bit of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reach {
    /// At most 8 blocks of keys.
    Short,
    /// At most 32.
    Middle,
    /// Any.
    Long,
}

impl Reach {
    /// The reach of a pass whose last position is `position`.
    pub fn of(position: usize) -> Reach {
        match position / KEY_BLOCK {
            0..8 => Reach::Short,
            8..32 => Reach::Middle,
            _ => Reach::Long,
        }
    }
}

/// What follows behind the final norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// Nothing: the outputs that are wanted are launched by themselves.
    Open,
    /// The head's best row becomes the next token.
    Pick,
    /// The next token is drawn from the head's logits.
    Draw,
}

/// Which part of the program a list runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Up to the K/V of the last layer that owns some: nobody wants an output.
    Silent,
    /// From that layer to the final norm, for one column whose stream a prompt's pass handed on.
    Rest,
    /// All layers and the final norm.
    Whole,
}

/// What a list of launches is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    /// Columns; one is the narrow form.
    pub columns: usize,
    pub part: Part,
    /// What follows behind the final norm.
    pub end: End,
    pub reach: Reach,
    /// Whether the columns of a pass are neighbouring positions of one sequence, and few enough for kernels that know it ([`NEIGHBOURS`]).
    pub neighbours: bool,
}

/// Columns that attend in one kernel of clusters, if they are neighbours, at most.
pub(crate) const NEIGHBOURS: usize = 4;
