// Neutral values as objects of Python: None, bool, int, float, str, bytes, list, dict with text
// keys, Ref, Tensor, and Actor.
// Thread: any, with the GIL.
// Errors: TypeError with the path of the part, such as `at ["a"][1]: a set has no neutral form`.
#pragma once

#include <nanobind/nanobind.h>

#include <mobula/neutral.h>

// A neutral value, as an argument or a result.
struct Neutral {
  mobula::dynamic::NeutralValue value;
};

// Returns the object, of which Neutral is a copy.
nanobind::object python_of(const mobula::dynamic::NeutralValue& value);

// Defines the classes Neutral and Tensor.
void bind_neutral_values(nanobind::module_& m);
