// Placement groups: creation, waits, removal, and decoding of the head's replies.
#include <nlohmann/json.hpp>

#include <mobula/exceptions.h>
#include <mobula/serialize.h>

#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using detail::RawId;
using Json = nlohmann::json;

GroupStrategy strategy_of(mobula::Strategy strategy) {
  switch (strategy) {
    case mobula::Strategy::pack: return GroupStrategy::pack;
    case mobula::Strategy::spread: return GroupStrategy::spread;
    case mobula::Strategy::strict_pack: return GroupStrategy::strict_pack;
    case mobula::Strategy::strict_spread: return GroupStrategy::strict_spread;
  }
  return GroupStrategy::pack;
}

mobula::Strategy strategy_named(const std::string& name) {
  for (const auto each :
       {mobula::Strategy::spread, mobula::Strategy::strict_pack, mobula::Strategy::strict_spread}) {
    if (name == to_string(strategy_of(each))) return each;
  }
  return mobula::Strategy::pack;
}

PlacementGroupInfo info_of(const Json& item) {
  PlacementGroupInfo info;
  info.id = item.at("placement_group_id");
  info.name = item.at("name");
  info.name_space = item.at("name_space");
  info.state = item.at("state");
  info.strategy = strategy_named(item.at("strategy"));
  info.detached = item.at("detached");
  info.reason = item.at("reason");
  info.priority = item.at("priority");
  for (const auto& bundle : item.at("bundles")) {
    Resources amounts;
    for (const auto& [name, amount] : bundle.at("resources").items()) {
      amounts[name] = amount.get<double>();
    }
    if (bundle.contains("gpu_memory")) {
      amounts["gpu_memory"] = bundle.at("gpu_memory").get<std::int64_t>();
    }
    if (bundle.contains("accelerator_type")) {
      amounts["accelerator_type:" + bundle.at("accelerator_type").get<std::string>()] = 0.001;
    }
    info.bundles.push_back(std::move(amounts));
    const auto& node = bundle.at("node_id");
    info.nodes.push_back(node.is_null() ? std::string() : node.get<std::string>());
  }
  return info;
}

}  // namespace

Answer<RawId> ProcessRuntime::create_group(const detail::GroupRequest& request) {
  auto lock = engine_->lock();
  GroupSpec spec;
  spec.id = new_id<GroupId>("group");
  spec.job = options_.job;
  spec.name = request.name;
  spec.name_space = options_.name_space;
  spec.detached = request.detached;
  spec.strategy = strategy_of(request.strategy);
  spec.priority = request.priority;
  for (const auto& bundle : request.bundles) spec.bundles.push_back(request_of(bundle));
  const auto id = spec.id;
  engine_->step(SubmitGroup{std::move(spec)});
  return raw(id.bits());
}

Answer<RawId> ProcessRuntime::group_ready(RawId group) {
  const auto context = task();
  const ObjectId object = put_id(context->task, context->puts.fetch_add(1));
  const auto bytes = detail::to_bytes(true);
  ValueRecord value;
  value.size_bytes = static_cast<std::int64_t>(bytes.size());
  value.bytes = Payload(bytes);
  auto lock = engine_->lock();
  engine_->step(AwaitGroup{GroupId(bits(group)), object, std::move(value)});
  return raw(object.bits());
}

detail::Done ProcessRuntime::remove_group(RawId group) {
  auto lock = engine_->lock();
  engine_->step(EndGroup{GroupId(bits(group))});
  return std::nullopt;
}

Answer<std::vector<PlacementGroupInfo>> ProcessRuntime::groups() {
  const auto text = read_state("placement-groups", "");
  if (!text.ok()) return text.error();
  std::vector<PlacementGroupInfo> infos;
  try {
    const Json answer = Json::parse(text.value());
    for (const auto& item : answer.at("items")) infos.push_back(info_of(item));
  } catch (const Json::exception& e) {
    return make_error(detail::ErrorKind::protocol_mismatch,
                      std::string("the reply of the head cannot be decoded: ") + e.what());
  }
  return infos;
}

Answer<PlacementGroup> ProcessRuntime::get_group(std::string_view name,
                                                 std::string_view name_space) {
  const auto all = groups();
  if (!all.ok()) return all.error();
  const std::string searched = name_space.empty() ? options_.name_space : std::string(name_space);
  for (const auto& info : all.value()) {
    if (info.name != name || info.name_space != searched || info.state == "REMOVED") continue;
    const auto id = bits_from_hex(info.id);
    if (id) return PlacementGroup(raw(*id), info.bundles, info.strategy);
  }
  return make_error(
      detail::ErrorKind::not_found,
      "no placement group is named '" + std::string(name) + "' in namespace '" + searched + "'");
}

}  // namespace mobula::internal::client
