// Where an example runs: on the cluster that MOBULA_ADDRESS names, else on one of its own with the
// resources the example needs. Called once, before init.
#pragma once

#include <cstdlib>

#include <mobula/mobula.h>

inline mobula::InitOptions own_cluster_with(const mobula::InitOptions& resources) {
  const char* address = std::getenv("MOBULA_ADDRESS");
  return address == nullptr || *address == '\0' ? resources : mobula::InitOptions{};
}
