#include "head/core/query/object_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/view/memory_json.h"
#include "head/core/view/state_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_late("head.object_list_without_a_node");

}  // namespace

Result<void> ObjectQuery::ask(QuerySource asker, About about, std::string id) {
  if (questions_.size() >= max_open) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} questions about objects are open; ask again in a moment",
                               questions_.size()));
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
  const std::uint64_t number = ++last_;
  Question question{
      asker, about, std::move(id), {}, {}, {}, 0, parts_.now + parts_.options.list_timeout};
  for (const auto& [node, row] : parts_.nodes.rows()) {
    if (row.registered()) question.missing.insert(node);
  }
  const auto& kept = questions_.emplace(number, std::move(question)).first->second;
  if (kept.missing.empty()) {
    settle(number);
    return {};
  }
  const std::set<NodeId> nodes = kept.missing;
  for (const auto node : nodes) {
    parts_.nodes.send(
        node, ObjectsRequest{number, parts_.options.max_listed, about == About::memory, only});
  }
  return {};
}

void ObjectQuery::listed(NodeId node, const ObjectsReply& message) {
  const auto at = questions_.find(message.request);
  if (at == questions_.end() || at->second.missing.erase(node) == 0) return;
  for (const auto& object : message.objects) at->second.items.push_back({node, object});
  at->second.stores.push_back({node, message.store});
  at->second.left_out += message.left_out;
  if (at->second.missing.empty()) settle(message.request);
}

void ObjectQuery::node_died(NodeId node) {
  std::vector<std::uint64_t> answered;
  for (auto& [number, question] : questions_) {
    if (question.missing.erase(node) != 0 && question.missing.empty()) answered.push_back(number);
  }
  for (const auto number : answered) settle(number);
}

void ObjectQuery::tick() {
  std::vector<std::uint64_t> late;
  for (const auto& [number, question] : questions_) {
    if (question.until <= parts_.now) late.push_back(number);
  }
  for (const auto number : late) {
    mark_late.hit();
    settle(number);
  }
}

std::optional<Time> ObjectQuery::next_deadline() const {
  std::optional<Time> due;
  for (const auto& [number, question] : questions_) due = earlier(due, question.until);
  return due;
}

void ObjectQuery::settle(std::uint64_t number) {
  const auto at = questions_.find(number);
  Question question = std::move(at->second);
  questions_.erase(at);
  std::vector<std::string> warnings;
  for (const auto node : question.missing) {
    warnings.push_back(fmt::format("node {} has not answered in time", node.brief()));
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
        memory_json(question.items, question.stores, warnings, parts_.options.max_listed);
    return answer(parts_, question.asker, memory);
  }
  const auto json = objects_json(parts_, question.items, question.id, warnings);
  answer(parts_, question.asker, json);
}

}  // namespace mobula::internal::head
