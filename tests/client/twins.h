// Two files with functions and lambdas of equal names, which the registry must distinguish.
// Thread: any.
#pragma once

#include <vector>

#include <mobula/detail/registry.h>

namespace twins {

int first_function();
int second_function();
int first_lambda();
int second_lambda();

std::vector<mobula::detail::FunctionKey> first_keys();
std::vector<mobula::detail::FunctionKey> second_keys();

}  // namespace twins
