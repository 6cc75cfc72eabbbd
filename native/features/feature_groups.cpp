// Bundles for features that came as dicts, where each token has a list of its own. The values of some keys go together,
// as those that describe one word do: such keys become a group, whose bundles tokens share as they share those of
// templates.
#include "features/dataset.h"

#include "base/threads.h"
#include "features/hash_table.h"

#include <algorithm>
#include <cstring>

namespace trellis::features {
namespace {

constexpr int64_t most_kinds = 64, most_sampled = 4096;

// How many kinds there are; 0 if some features have none, or not all have the value 1.
int64_t count_kinds(const Dataset& data) {
  if (!data.token_bundles.empty() || !data.values.empty()) return 0;
  int64_t most = -1;
  for (const int32_t a : data.attributes) {
    if (size_t(a) >= data.kinds.size() || data.kinds[size_t(a)] < 0) return 0;
    most = std::max<int64_t>(most, data.kinds[size_t(a)]);
  }
  return most + 1;
}

// Some tokens, evenly spread, with their attribute of each kind, or -1.
struct Sample {
  int64_t size;
  std::vector<int32_t> attributes;  // [kinds, size]

  Sample(const Dataset& data, int64_t kinds)
      : size(std::min(data.tokens(), most_sampled)), attributes(size_t(kinds * size), -1) {
    for (int64_t i = 0; i < size; ++i)
      data.for_attributes(i * data.tokens() / size, [&](int32_t a, double) {
        attributes[size_t(data.kinds[size_t(a)] * size + i)] = a;
      });
  }
};

// Which kinds make up a group. A kind joins the group before it if the distinct bundles of the sample then have fewer
// features more than there are tokens with this kind. Else it begins a group, or, if few tokens have it, it goes to
// group 0 with others of that sort; if there are none, the groups begin with the others.
class Grouping {
 public:
  Grouping(const Sample& sample, int64_t kinds) : sample_(sample), trie_(uint64_t(sample.size)) {
    const Bundles none(size_t(sample.size), 0);
    Bundles rare = none, last = none;
    for (int64_t k = 0; k < kinds; ++k) {
      Bundles joined = last;
      const int64_t tokens = extend(k, joined);
      const bool joins = groups_ > 1 && entries_of(joined) - entries_of(last) < tokens;
      if (joins) {
        last.swap(joined);
      } else if (2 * tokens < sample.size) {
        extend(k, rare);
      } else {
        cost_ += cost_of(last);
        last = none;
        extend(k, last);
        ++groups_;
      }
      group_of.push_back(uint8_t(joins || 2 * tokens >= sample.size ? groups_ - 1 : 0));
      before_ += tokens;
    }
    cost_ += cost_of(last) + cost_of(rare);
    if (rare != none) return;
    for (uint8_t& group : group_of) --group;
    --groups_;
  }

  std::vector<uint8_t> group_of;  // [kinds]
  int64_t groups() const { return groups_; }
  bool is_worthwhile() const { return 4 * cost_ < 3 * before_; }

 private:
  using Bundles = std::vector<int32_t>;  // [size] of the tokens of the sample, each a node of a trie; 0: empty

  // To the bundles with this kind as well. How many tokens have it.
  int64_t extend(int64_t kind, Bundles& bundles) {
    int64_t tokens = 0;
    for (size_t i = 0; i < bundles.size(); ++i) {
      const int32_t a = sample_.attributes[size_t(kind * sample_.size) + i];
      if (a < 0) continue;
      const int32_t depth = depths_[size_t(bundles[i])];
      bundles[i] = 1 + trie_.add(pair_key(bundles[i], a), int32_t(trie_.count()));
      if (size_t(bundles[i]) == depths_.size()) depths_.push_back(depth + 1);
      ++tokens;
    }
    return tokens;
  }
  // How many features the distinct bundles have.
  int64_t entries_of(const Bundles& bundles) const {
    int64_t sum = 0;
    std::vector<bool> seen(depths_.size());
    for (const int32_t node : bundles) {
      if (!seen[size_t(node)]) sum += depths_[size_t(node)];
      seen[size_t(node)] = true;
    }
    return sum;
  }
  // What is to be added: the features of bundles, and the bundles of tokens.
  int64_t cost_of(const Bundles& bundles) const {
    return entries_of(bundles) + int64_t(bundles.size()) - std::count(bundles.begin(), bundles.end(), 0);
  }

  const Sample& sample_;
  HashTable<int32_t> trie_;         // (node, attribute) to node - 1
  std::vector<int32_t> depths_{0};  // of nodes
  int64_t groups_ = 1, cost_ = 0, before_ = 0;
};

// The bundles of one group, each the bytes of its attributes, and which of them each token has.
struct GroupBundles {
  StringIndex<> texts;
  std::vector<int32_t> of_token;

  // groups[E] of the features
  void read(const Dataset& data, const std::vector<uint8_t>& groups, uint8_t group) {
    of_token.resize(size_t(data.tokens()));
    std::vector<int32_t> own;
    for (int64_t n = 0; n < data.tokens(); ++n) {
      const int64_t begin = data.bundle_begin(n), end = data.bundle_ends[size_t(n)];
      if (int64_t(own.size()) < end - begin) own.resize(size_t(end - begin));
      size_t count = 0;
      for (int64_t e = begin; e < end; ++e) {  // without branches: nobody can foresee them
        own[count] = data.attributes[size_t(e)];
        count += groups[size_t(e)] == group;
      }
      const char* bytes = reinterpret_cast<const char*>(own.data());
      of_token[size_t(n)] = int32_t(texts.add({count ? bytes : "", count * sizeof(int32_t)}).number);
    }
  }
};

void append(const GroupBundles& group, Dataset& to) {
  const StringList& texts = group.texts.list();
  for (uint64_t i = 0; i < texts.count; ++i) {
    const std::string_view bytes = texts[i];
    const size_t before = to.attributes.size();
    to.attributes.resize(before + bytes.size() / sizeof(int32_t));
    if (!bytes.empty()) std::memcpy(to.attributes.data() + before, bytes.data(), bytes.size());
    to.bundle_ends.push_back(int64_t(to.attributes.size()));
  }
}

}  // namespace

bool share_bundles(Dataset& data) {
  const int64_t kinds = count_kinds(data);
  if (!kinds || kinds > most_kinds) return false;
  const Sample sample(data, kinds);
  const Grouping grouping(sample, kinds);
  if (!grouping.is_worthwhile()) return false;
  std::vector<uint8_t> group_of(data.attributes.size());
  for (size_t e = 0; e < group_of.size(); ++e)
    group_of[e] = grouping.group_of[size_t(data.kinds[size_t(data.attributes[e])])];
  std::vector<GroupBundles> groups(size_t(grouping.groups()));
  run_tasks(grouping.groups(), num_threads(), [&](int64_t g) { groups[size_t(g)].read(data, group_of, uint8_t(g)); });
  data.forget_features();
  data.groups = grouping.groups();
  data.token_bundles.resize(size_t(data.tokens() * data.groups));
  for (size_t g = 0; g < groups.size(); ++g) {
    const int32_t first = int32_t(data.bundles());
    for (size_t n = 0; n < groups[g].of_token.size(); ++n)
      data.token_bundles[n * groups.size() + g] = first + groups[g].of_token[n];
    append(groups[g], data);
  }
  return true;
}

}  // namespace trellis::features
