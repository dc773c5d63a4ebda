// Questions about the objects in the nodes' stores: asks the agents, gathers what they answer, and
// replies when all have, or after `list_within` with what has come and a warning about the rest.
// Keeps nothing between questions. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "head/core/asker.h"
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
  // What the question is about.
  enum class About : unsigned char { objects, one_object, memory, holders };

  // `id`: of one object, or its beginning; holders: whole ids with commas between them. Refused when too many questions
  // are open.
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
