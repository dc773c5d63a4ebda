// The interface of a key-value service, included by the service and by its clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

struct Item {
  std::int32_t count = 0;
  double weight = 0;
};

class KV {
 public:
  void put(std::string key, Item item);
  std::optional<Item> get(std::string key) const;

 private:
  std::map<std::string, Item> items_;
};
