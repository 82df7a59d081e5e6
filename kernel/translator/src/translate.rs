//! From functions of Rust to functions of C.
//!
//! A function is translated when something that is translated calls it. Every call and every value of a block becomes a
//! local variable of C, so that the order of evaluation is that of Rust.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Block, Expr, FnArg, Pat};

use super::body::Body;
use super::source::{Code, Key, Name, Outside, Result, Sources};
use super::types::{Ty, Types, local, prefix};

/// A function that is translated: its name in C and its types.
#[derive(Clone)]
pub struct Signature {
    pub c: String,
    pub parameters: Vec<Ty>,
    pub returns: Ty,
}

pub struct Translator<'a> {
    pub sources: &'a Sources,
    pub types: Types,
    functions: BTreeMap<Key, Signature>,
    open: BTreeSet<Key>,
    text: String,
}

impl<'a> Translator<'a> {
    pub fn new(sources: &'a Sources) -> Self {
        let (types, text) = (Types::default(), String::new());
        Self { sources, types, functions: BTreeMap::new(), open: BTreeSet::new(), text }
    }

    /// The C of everything that was asked for: types, then functions.
    pub fn finish(self) -> String {
        self.types.text + &self.text
    }

    /// Translates a function or a constant by its place, for the start. `of` is empty where it is of no type.
    pub fn root(&mut self, module: &str, of: &str, name: &str) -> Result<()> {
        let of_type = Some(of.to_owned()).filter(|of| !of.is_empty());
        let key = Key { module: module.into(), of: of_type, name: name.into(), right: None };
        let found = match self.function(&key)? {
            None => self.constant(&key)?,
            found => found,
        };
        match found {
            Some(_) => Ok(()),
            None => Err(Outside(format!("there is no {module}::{of}::{name}, which is to be translated"))),
        }
    }

    /// The signature of a function, which is translated now if it was not yet; `None` if there is none.
    pub fn function(&mut self, key: &Key) -> Result<Option<Signature>> {
        if let Some(done) = self.functions.get(key) {
            return Ok(Some(done.clone()));
        }
        let sources = self.sources;
        let Some(code) = sources.functions.get(key) else { return Ok(None) };
        let (signature, block) = &code.item;
        let of = code.of.as_ref();
        if !self.open.insert(key.clone()) {
            return Err(sources.outside(code.file, &signature.ident, "a function that calls itself"));
        }
        if let Some(parameter) = signature.generics.params.first() {
            return Err(sources.outside(code.file, parameter, "a generic function"));
        }
        let mut parameters = Vec::new();
        for input in &signature.inputs {
            parameters.push(match input {
                FnArg::Receiver(receiver) => {
                    let Some(of) = of else {
                        return Err(sources.outside(code.file, receiver, "`self` without a type"));
                    };
                    let ty = self.types.read(sources, code.file, Some(of), &receiver.ty)?;
                    ("self".to_owned(), ty)
                }
                FnArg::Typed(argument) => {
                    let Pat::Ident(pattern) = &*argument.pat else {
                        return Err(sources.outside(code.file, &argument.pat, "a pattern as parameter"));
                    };
                    if pattern.mutability.is_some() {
                        return Err(sources.outside(code.file, pattern, "a parameter that changes"));
                    }
                    (pattern.ident.to_string(), self.types.read(sources, code.file, of, &argument.ty)?)
                }
            });
        }
        let returns = match &signature.output {
            syn::ReturnType::Default => Ty::Unit,
            syn::ReturnType::Type(_, ty) => self.types.read(sources, code.file, of, ty)?,
        };
        self.define(key, code, parameters, returns, block).map(Some)
    }

    /// The function of C without arguments that returns a constant; `None` if there is none.
    pub fn constant(&mut self, key: &Key) -> Result<Option<Signature>> {
        if let Some(done) = self.functions.get(key) {
            return Ok(Some(done.clone()));
        }
        let sources = self.sources;
        let Some(code) = sources.constants.get(key) else { return Ok(None) };
        let (ty, value) = &code.item;
        let ty = self.types.read(sources, code.file, code.of.as_ref(), ty)?;
        let block =
            Block { brace_token: syn::token::Brace::default(), stmts: vec![syn::Stmt::Expr(Expr::clone(value), None)] };
        self.define(key, code, Vec::new(), ty, &block).map(Some)
    }

    fn define<T>(
        &mut self,
        key: &Key,
        code: &Code<T>,
        parameters: Vec<(String, Ty)>,
        returns: Ty,
        block: &Block,
    ) -> Result<Signature> {
        let (file, of) = (code.file, code.of.clone());
        let c = c_name(key, of.as_ref());
        let list: Vec<String> = parameters
            .iter()
            .map(|(name, ty)| {
                let ty = self.types.c(ty);
                format!("{ty}{}{}", if ty.ends_with('*') { "" } else { " " }, local(name))
            })
            .collect();
        let list = if list.is_empty() { "void".to_owned() } else { list.join(", ") };
        let types = parameters.iter().map(|(_, ty)| ty.clone()).collect();
        let text = Body::new(self, file, of.clone(), parameters, returns.clone()).function(block)?;
        let place = of.map_or(String::new(), |(_, name)| format!("{name}::"));
        self.text += &format!(
            "/* {place}{} of {} */\nTWIN_INLINE {} {c}({list})\n{{\n{text}}}\n\n",
            key.name,
            self.sources.files[file].path,
            self.types.c(&returns)
        );
        let signature = Signature { c, parameters: types, returns };
        self.functions.insert(key.clone(), signature.clone());
        Ok(signature)
    }
}

fn c_name(key: &Key, of: Option<&Name>) -> String {
    let right = key.right.as_ref().map(|right| format!("_{}", right.to_lowercase())).unwrap_or_default();
    let name = key.name.to_lowercase();
    of.map_or_else(|| format!("{}_{name}", key.module), |of| format!("{}_{name}{right}", prefix(of)))
}
