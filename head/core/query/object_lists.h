// Queries for the objects in the nodes' stores. A query goes to all agents. The reply is sent when
// all have answered, or after `list_within` with the results so far and a warning about the rest.
// Thread: owner (one HeadCore). Not: state between queries.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "head/core/query/asker.h"
#include "head/core/inputs.h"

namespace mobula::internal::head {

struct Parts;

class ObjectLists {
 public:
  struct Item {
    NodeId node;
    ObjectFact object;
  };

  explicit ObjectLists(Parts& parts) : parts_(parts) {}

  struct Store {
    NodeId node;
    StoreFact fact;
  };
  // Subject of a query.
  enum class About : unsigned char { objects, one_object, memory, holders };

  // `id` is the id of one object or its prefix; for holders, whole ids with commas between them.
  // Fails if too many queries are open.
  Result<void> ask(Asker asker, About about, std::string id);
  void listed(NodeId node, const ObjectsListed& message);
  void node_died(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;
  static constexpr std::size_t max_ids = 64;  // object ids in one question about holders

  struct Question {
    Asker asker;
    About about = About::objects;
    std::string id;
    std::set<NodeId> missing;
    std::vector<Item> items;
    std::vector<Store> stores;
    std::uint64_t left_out = 0;
    Time until;
  };
  void settle(std::uint64_t number);

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace mobula::internal::head
