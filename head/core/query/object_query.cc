#include "head/core/query/object_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/view/devices/memory_json.h"
#include "head/core/view/state_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_late("head.object_list_without_a_node");

}  // namespace

Result<void> ObjectQuery::start(QuerySource source, About about, std::string id) {
  if (queries_.is_full()) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} queries about objects are open; retry in a moment", queries_.size()));
  }
  std::vector<ObjectId> only;
  for (std::size_t at = 0; about == About::holders && at <= id.size();) {
    const std::size_t end = std::min(id.find(',', at), id.size());
    const auto object = ObjectId::from_hex(id.substr(at, end - at));
    if (!object || only.size() >= max_ids) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("list holders: expected 1 to {} object ids with commas between them",
                      max_ids));
    }
    only.push_back(*object);
    at = end + 1;
  }
  const std::uint64_t number = queries_.next_number();
  Queries::Targets nodes;
  for (const auto& [node, row] : tables_.nodes.rows()) {
    if (row.registered()) nodes.emplace(node, node.brief());
  }
  const ObjectsRequest request{number, tables_.options.max_listed, about == About::memory, only};
  auto finished = queries_.add(number, {source, about, std::move(id), {}, {}, 0}, std::move(nodes),
                               tables_.now + tables_.options.list_timeout,
                               [&](NodeId node) { tables_.nodes.send(node, request); });
  if (finished) settle(std::move(*finished));
  return {};
}

void ObjectQuery::listed(NodeId node, const ObjectsReply& message) {
  Question* question = queries_.accept_reply(message.request, node);
  if (question == nullptr) return;
  for (const auto& object : message.objects) question->items.push_back({node, object});
  question->stores.push_back({node, message.store});
  question->left_out += message.left_out;
  auto finished = queries_.finish_if_complete(message.request);
  if (finished) settle(std::move(*finished));
}

void ObjectQuery::node_died(NodeId node) {
  for (auto& finished : queries_.remove_target(node)) settle(std::move(finished));
}

void ObjectQuery::tick() {
  for (auto& late : queries_.expire(tables_.now)) {
    mark_late.hit();
    settle(std::move(late));
  }
}

std::optional<Time> ObjectQuery::next_deadline() const { return queries_.next_deadline(); }

void ObjectQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  std::vector<std::string> warnings;
  for (const auto& [node, name] : finished.silent) {
    warnings.push_back(fmt::format("node {} has not replied in time", name));
  }
  if (question.left_out > 0) {
    warnings.push_back(fmt::format("{} objects are left out", question.left_out));
  }
  if (question.about == About::holders) {
    // Agents of the previous release list all objects of their store.
    std::erase_if(question.items, [&](const Item& each) {
      return question.id.find(each.object.object.hex()) == std::string::npos;
    });
  }
  if (question.about == About::memory || question.about == About::holders) {
    const Result<std::string> memory =
        memory_json(question.items, question.stores, warnings, tables_.options.max_listed);
    return answer(tables_, question.source, memory);
  }
  const auto json = objects_json(tables_, question.items, question.id, warnings);
  answer(tables_, question.source, json);
}

}  // namespace mobula::internal::head
