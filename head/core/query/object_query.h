// Queries for the objects in the nodes' stores. A query goes to all agents. The reply is sent when
// all have answered, or after `list_timeout` with the results so far and a warning about the rest.
// Thread: owner (one HeadCore). Not: state between queries.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "head/core/head_events.h"
#include "head/core/query/fan_out.h"
#include "head/core/query/query_source.h"

namespace mobula::internal::head {

struct HeadTables;

class ObjectQuery {
 public:
  struct Item {
    NodeId node;
    ObjectFact object;
  };

  explicit ObjectQuery(HeadTables& tables) : tables_(tables) {}

  struct Store {
    NodeId node;
    StoreFact fact;
  };
  // Subject of a query.
  enum class About : unsigned char { objects, one_object, memory, holders };

  // `id` is the id of one object or its prefix; for holders, whole ids with commas between them.
  // Fails if too many queries are open.
  Result<void> start(QuerySource source, About about, std::string id);
  void listed(NodeId node, const ObjectsReply& message);
  void node_died(NodeId node);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;
  static constexpr std::size_t max_ids = 64;  // object ids in one question about holders

  struct Question {
    QuerySource source;
    About about = About::objects;
    std::string id;
    std::vector<Item> items;
    std::vector<Store> stores;
    std::uint64_t left_out = 0;
  };
  using Queries = FanOut<NodeId, Question>;
  void settle(Queries::Finished&& finished);

  HeadTables& tables_;
  Queries queries_{max_open};
};

}  // namespace mobula::internal::head
