#include <mobula/placement_group.h>

#include <utility>

#include <mobula/errors.h>
#include <mobula/get.h>
#include <mobula/serialize.h>

#include "client/api/rules.h"

namespace mobula {

struct PlacementGroup::Shape {
  detail::RawId id;
  std::vector<Resources> bundles;
  Strategy strategy = Strategy::pack;
};

PlacementGroup::PlacementGroup(detail::RawId id, std::vector<Resources> bundles, Strategy strategy)
    : shape_(std::make_shared<const Shape>(Shape{id, std::move(bundles), strategy})) {}

detail::RawId PlacementGroup::raw_id() const { return shape_ ? shape_->id : detail::RawId{}; }

std::string PlacementGroup::id() const { return shape_ ? detail::hex(shape_->id) : std::string(); }

const std::vector<Resources>& PlacementGroup::bundles() const {
  static const std::vector<Resources> none;
  return shape_ ? shape_->bundles : none;
}

Strategy PlacementGroup::strategy() const { return shape_ ? shape_->strategy : Strategy::pack; }

namespace {

detail::RawId id_of(const PlacementGroup& group) {
  if (group.empty()) {
    internal::client::refuse("placement group", "it names a created group", "an empty one");
  }
  return group.raw_id();
}

}  // namespace

ObjectRef<bool> PlacementGroup::ready() const {
  const auto runtime = detail::runtime();
  const auto object = runtime->group_ready(id_of(*this)).take();
  return ObjectRef<bool>(detail::Anchor::adopt(runtime, {detail::RefKind::object, object}));
}

bool PlacementGroup::wait(Duration timeout) const {
  const auto ref = ready();
  try {
    return get(ref, timeout);
  } catch (const GetTimeoutError&) {
    return false;
  }
}

void Serializer<PlacementGroup>::write(Writer& out, const PlacementGroup& group) {
  out.write(!group.empty());
  if (group.empty()) return;
  out.write(group.raw_id().high);
  out.write(group.raw_id().low);
  out.write(group.strategy());
  std::vector<std::map<std::string, double>> bundles;
  for (const auto& bundle : group.bundles()) bundles.emplace_back(bundle.begin(), bundle.end());
  out.write(bundles);
}

PlacementGroup Serializer<PlacementGroup>::read(Reader& in) {
  if (!in.read<bool>()) return {};
  detail::RawId id;
  id.high = in.read<std::uint64_t>();
  id.low = in.read<std::uint64_t>();
  const auto strategy = in.read<Strategy>();
  std::vector<Resources> bundles;
  for (const auto& bundle : in.read<std::vector<std::map<std::string, double>>>()) {
    bundles.emplace_back(bundle.begin(), bundle.end());
  }
  return PlacementGroup(id, std::move(bundles), strategy);
}

PlacementGroup placement_group(const std::vector<Resources>& bundles, Strategy strategy,
                               const PlacementGroupOptions& options) {
  auto request = detail::prepare_group(bundles, strategy, options);
  const auto id = detail::runtime()->create_group(request).take();
  return PlacementGroup(id, bundles, strategy);
}

void remove_placement_group(const PlacementGroup& group) {
  if (auto failed = detail::runtime()->remove_group(id_of(group))) detail::throw_error(*failed);
}

PlacementGroup get_placement_group(const std::string& name, const std::string& name_space) {
  if (name.empty()) internal::client::refuse("name", "a placement group to get has one", "none");
  return detail::runtime()->get_group(name, name_space).take();
}

std::vector<PlacementGroupInfo> placement_group_table() {
  return detail::runtime()->groups().take();
}

}  // namespace mobula
