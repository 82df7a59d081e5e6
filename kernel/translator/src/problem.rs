//! What the subset of Rust does not have, and what to write instead. The chapter *Rust for the kernel* of the book shows an
//! example of the most common.

use std::fmt;

macro_rules! problems {
    ($($name:ident => $construct:literal, $instead:literal;)*) => {
        /// A construct that is not translated.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Problem { $($name),* }

        impl Problem {
            /// All of them.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$name),*];

            fn construct(self) -> &'static str {
                match self { $(Self::$name => $construct),* }
            }
            /// The Rust to write instead, in a sentence.
            pub fn instead(self) -> &'static str {
                match self { $(Self::$name => $instead),* }
            }
        }
    };
}

problems! {
    // Types and items.
    Float => "a float", "use `Probability`, or an integer in a unit that you choose: the kernel computes without floats";
    Wide => "a signed integer of 128 bits", "use i64, or u128 for sums and differences";
    TypeArguments => "a type with arguments", "only `Option<T>` has any; name a struct of your own for what it holds";
    OtherType => "a type that is no integer, struct, enum, option or reference",
        "use a struct with a field for each part; there are no arrays, slices, tuples, texts and trait objects";
    UnknownType => "a type that is not translated",
        "define it in the decider's file, or import it from tidegate_core by its name";
    GenericType => "a generic struct", "write it out for the type that you need";
    NumberedVariant => "a variant with a number", "leave the numbers out, and turn a variant into a number by `match`";
    SelfWithoutType => "`self` in a function that is of no type", "move the function into an `impl`";
    GenericFunction => "a generic function", "write it out for the type that you need";
    Recursion => "a function that calls itself", "use a `for` loop over a range: the kernel's stack has 512 bytes";
    ParameterPattern => "a pattern as parameter", "give the parameter a name, and take it apart in the body";
    MutableParameter => "a parameter that changes", "assign it to a variable: `let mut x = x;`";
    Twice => "a name that two private modules of one module define", "rename one of them: C has one name for both";
    InnerItem => "an item in a function", "move it out of the function";

    // Statements and control flow.
    Macro => "a macro", "only `debug_assert!` may stand here, and is left out of the C; write what the macro expands to";
    Uninitialized => "a variable without a value", "give it one where it is declared: `let x = if ... { a } else { b };`";
    Pattern => "a pattern that takes something apart here", "bind the whole to a name, and use its fields";
    ElseGoesOn => "an `else` that does not leave the function or the loop", "end it with `return`, `break` or `continue`";
    NotOption => "`Some` or `?` where there is no option", "compare the value, or return early by `if`";
    SomePattern => "a pattern other than `Some(name)`", "write `Some(name)` or `Some(_)`, and look at `name` inside";
    Branches => "branches of different types", "give each the same type, with the type behind its numbers: `0_u64`";
    Guard => "a guard of a `match`", "write an `if` inside of the arm";
    NestedPattern => "a pattern inside a pattern", "bind the field to a name, and use `match` on it inside of the arm";
    ChoiceOn => "a `match` on what is no option and no enum", "use `if` and `else if`";
    Loop => "a loop over something else than a range", "write `for i in 0..n` with a bound that is known to be small";
    RangeKind => "a range other than `a..b`", "write `a..b`, with `b + 1` in place of `..=b`";
    Endless => "a loop without a bound", "write `for i in 0..n` and `break`: the kernel's verifier must see an end";
    Label => "a label", "use a function of its own for the inner loop, and `return`";
    LetChain => "`let` beside another condition", "use two `if`, one inside of the other";

    // Expressions.
    Closure => "a closure", "use `if`, `match` or a function";
    Tuple => "a tuple", "use a struct, or several variables";
    Array => "an array, or an element of one", "use a struct with a field for each element; there are constant tables of integers, as many as a power of two";
    Expression => "an expression of a kind that is not translated", "use calls, fields, arithmetic, `if`, `match` and `for`";
    Conversion => "a conversion of what is no integer", "`as` and `from` convert between integers; a newtype has a method";
    Literal => "a literal that is no integer and no bool", "use a number, or an enum";
    NumberType => "a number whose type does not show", "write it behind the number: `1_u64`";
    NoneType => "`None` or `Some` whose type does not show", "write `let x: Option<u64> = ...`, or return it directly";
    UnknownName => "a name that is not translated",
        "define it in the decider's file, or import it from tidegate_core by its name";
    LongPath => "a path of more than two names", "import the type with `use`, and write `Type::name`";
    Field => "a field of what has no such field", "use a method, or a field of a struct";
    Operator => "an operator that these types do not have", "use a method of integers, or of the type";
    MixedOperands => "an operator with two types", "convert one side by `from`, or by its method";
    WideProduct => "a product or a quotient of 128 bits", "use `tidegate_core::units::wide::mul_div`: BPF has none";
    SignedDivision => "a division or left shift of signed integers",
        "divide `x.unsigned_abs()` and set the sign by `if`, or shift to the right: BPF divides unsigned numbers alone";
    Shift => "a shift of a small integer, or by another type than u32", "shift a u32, u64 or u128 by a u32";
    StructRest => "a struct with `..`", "write all fields";
    UnnamedFields => "a struct or variant of several fields without names", "name the fields, or use one field";
    DefaultValue => "a default that is not derived, or not zero", "write the struct with its fields";
    Call => "a call of a value", "call a function or a method by its name";
    Arguments => "another number of arguments, or other types", "convert what is passed, as Rust would want it without coercions";
    UnknownFunction => "a function that is not translated",
        "write it in the decider's file, in this subset, or use one of tidegate_core that is in it";
    UnknownMethod => "a method that is not translated",
        "write it in an `impl` of the decider's file; of integers there are those that the chapter lists";
    Mismatch => "a value whose type is not the one that stands here", "convert it, or give a variable its type: `let x: u64 = ...`";
    Contract => "a decider without what the chassis calls", "write it as the chapter *Rust for the kernel* does";
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.construct())
    }
}

/// A construct outside of the subset: the message, with its place and what to write instead.
#[derive(Debug)]
pub struct Outside {
    /// The construct; `None` where the file is no Rust.
    pub problem: Option<Problem>,
    /// The file.
    pub path: String,
    /// The whole message.
    pub text: String,
}

impl Outside {
    /// `problem` at a line of a file; `code` is what stands there, and `detail` is added to the construct.
    pub fn new(path: &str, line: usize, code: &str, problem: Problem, detail: &str) -> Self {
        let code = if code.is_empty() { String::new() } else { format!("`{code}`: ") };
        let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
        let text = format!("{path}:{line}: {code}{problem}{detail}; {}", problem.instead());
        Self { problem: Some(problem), path: path.to_owned(), text }
    }
}

impl From<Outside> for std::io::Error {
    fn from(error: Outside) -> Self {
        Self::other(error.text)
    }
}

/// The result of what can meet a construct outside of the subset.
pub type Result<T> = std::result::Result<T, Outside>;
