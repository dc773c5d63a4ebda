// Where an example runs: on the cluster that MOBULA_ADDRESS names, else on a new one with the resources that
// the example needs. Called once, before init.
#pragma once

#include <cstdlib>
#include <string_view>

#include <mobula/mobula.h>

inline mobula::InitOptions own_cluster_with(const mobula::InitOptions& resources) {
  const char* given = std::getenv("MOBULA_ADDRESS");
  const std::string_view address = given == nullptr ? "" : given;
  return address.empty() || address == "local" ? resources : mobula::InitOptions{};
}
