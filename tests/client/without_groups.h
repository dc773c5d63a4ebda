// Common base of fake runtimes without placement groups and tensors.
// Thread: any.
#pragma once

#include <mobula/detail/runtime.h>

namespace mobula::testing {

class WithoutGroups : public detail::Runtime {
 public:
  detail::Answer<detail::RawId> create_group(const detail::GroupRequest&) override {
    return none();
  }
  detail::Answer<detail::RawId> group_ready(detail::RawId) override { return none(); }
  detail::Done remove_group(detail::RawId) override { return none(); }
  detail::Answer<PlacementGroup> get_group(std::string_view, std::string_view) override {
    return none();
  }
  detail::Answer<std::vector<PlacementGroupInfo>> groups() override { return none(); }
  std::vector<Transfer> transfers() override { return {}; }
  detail::Done wait_tensor_freed(const Tensor&, const detail::Deadline&) override { return none(); }

 private:
  static detail::ErrorRecord none() {
    detail::ErrorRecord record;
    record.kind = detail::ErrorKind::not_found;
    record.message = "there are no placement groups here";
    return record;
  }
};

}  // namespace mobula::testing
