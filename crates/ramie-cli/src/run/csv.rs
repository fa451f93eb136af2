//! The output of `--csv`: a header, then one row per repetition.
//!
//! The columns are the fields of the objects of `--json`; a field of an object inside is
//! `object.field`, such as `params.people`. A number is not rounded, and `null` is an empty cell.

use serde_json::Value;

use crate::{failure::Failure, output};

/// Prints the header once, and makes sure that the columns of all rows are the same.
#[derive(Default)]
pub(super) struct Csv {
    header: Option<String>,
}

impl Csv {
    /// Prints a row of these fields, and the header before the first row.
    pub(super) fn row(&mut self, fields: &[(&str, Value)]) -> Result<(), Failure> {
        let mut columns = Vec::new();
        for (name, value) in fields {
            flatten(name, value, &mut columns);
        }
        let line = |cells: Vec<String>| cells.join(",");
        let (names, cells) = columns.into_iter().unzip();
        self.header(&line(names))?;
        output::line(&line(cells))
    }

    /// Prints the header unless it is printed already.
    pub(super) fn header(&mut self, header: &str) -> Result<(), Failure> {
        match &self.header {
            None => {
                output::line(header)?;
                self.header = Some(header.to_owned());
                Ok(())
            }
            Some(first) if first == header => Ok(()),
            Some(first) => Err(Failure::other(format!(
                "the columns changed from {first} to {header}; please report this"
            ))),
        }
    }
}

fn flatten(name: &str, value: &Value, columns: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, columns);
            }
        }
        _ => columns.push((name.to_owned(), cell(value))),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{cell, flatten};

    #[test]
    fn objects_become_columns_and_numbers_stay_as_they_are() {
        let mut columns = Vec::new();
        flatten("a", &json!({"b": 1.25, "c": {"d": null}, "e": [1]}), &mut columns);
        let names: Vec<_> = columns.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(names, [("a.b", "1.25"), ("a.c.d", ""), ("a.e", "[1]")]);
        assert_eq!(cell(&json!(0.1 + 0.2)), "0.30000000000000004");
        assert_eq!(cell(&json!("so, \"why\"")), "\"so, \"\"why\"\"\"");
    }
}
