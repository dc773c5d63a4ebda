// Rows of the head's tables as JSON documents of apiVersion mobula/v1. Numbers of resources are
// exact to 1/10000; members stand in the order written here, so equal states give equal text. Read
// only.
#pragma once

#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "head/core/object_lists.h"
#include "model/request.h"
#include "scheduler/need.h"

namespace mobula::internal::head {

struct Parts;

// "nodes", "jobs", "actors", "leases", "executors", "placement-groups", "demands". Not_found for
// other kinds.
Result<std::string> list_json(const Parts& parts, const std::string& kind);
// One item by its id, or an unambiguous beginning of it of at least four digits.
Result<std::string> get_json(const Parts& parts, const std::string& kind, const std::string& id);
// What agents have answered; only objects whose id begins with `id`, not_found if there are none.
Result<std::string> objects_json(const Parts& parts, const std::vector<ObjectLists::Item>& items,
                                 const std::string& id, std::vector<std::string> warnings);
std::string status_json(const Parts& parts);
std::string named_actors_json(const Parts& parts, const std::string& name_space);
// Answer to an order that was carried out.
// The head's clock, and its release, for tools that compare them with their own.
std::string pong_json(const Parts& parts);
std::string done_json(const std::string& kind, const std::vector<std::string>& warnings);

}  // namespace mobula::internal::head
