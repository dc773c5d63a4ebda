// Selects the cluster of an example: the cluster of MOBULA_ADDRESS, otherwise a new one with the
// resources that the example needs. Call once, before init.
// Thread: main.
#pragma once

#include <cstdlib>
#include <string_view>

#include <mobula/mobula.h>

inline mobula::InitOptions own_cluster_with(const mobula::InitOptions& resources) {
  const char* given = std::getenv("MOBULA_ADDRESS");
  const std::string_view address = given == nullptr ? "" : given;
  return address.empty() || address == "local" ? resources : mobula::InitOptions{};
}
