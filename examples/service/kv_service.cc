// Starts the service and exits. The actor is detached, so it serves until `mobula kill` or until
// the cluster stops.
#include <mobula/mobula.h>
#include <mobula/service.h>

#include <iostream>

#include "kv.h"

void KV::put(std::string key, Item item) { items_[std::move(key)] = item; }

std::optional<Item> KV::get(std::string key) const {
  const auto found = items_.find(key);
  return found == items_.end() ? std::nullopt : std::optional(found->second);
}

// Other programs can call these methods, although this one does not.
const mobula::Service<KV, &KV::put, &KV::get> kv_service;

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const auto kv = mobula::actor<KV>
                      .options({.name = "kv",
                                .name_space = "services",
                                .lifetime = mobula::Lifetime::detached,
                                .num_cpus = 0,
                                .max_restarts = 3})
                      .remote();
  mobula::get(kv.call<&KV::get>("ready"));
  std::cout << "the actor kv serves" << std::endl;
}
