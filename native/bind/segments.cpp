// Inference over segments: arrays in, arrays out. As with chains, sizes and lifetimes are the caller's business:
// trellis.chain.segments checks everything first.
#include "segments/inference.h"

#include "bind/python.h"
#include "bind/stl.h"

namespace nb = nanobind;

namespace trellis::bind {

using namespace segments;

namespace {

static_assert(sizeof(PathSegment) == 3 * sizeof(int64_t));

// The report, and the paths as arrays: how many each sequence has, how many segments each has, the segments [S, 3]
// one after another, the scores.
template <typename F>
nb::tuple paths_of(F f) {
  SegmentPaths paths;
  const Report report = unlocked([&] { return f(paths); });
  const auto* numbers = reinterpret_cast<const int64_t*>(paths.segments.data());
  return nb::make_tuple(report, to_numpy(std::move(paths.found)), to_numpy(std::move(paths.counts)),
                        copy_of(numbers, 3 * paths.segments.size()), to_numpy(std::move(paths.scores)));
}

}  // namespace

void bind_segments(nb::module_& m) {
  using I = SegmentInference;
  nb::class_<I>(m, "SegmentInference")
      .def("__init__",
           [](I* self, nb::handle segments, nb::handle offsets, int64_t B, int64_t K, nb::handle transitions,
              nb::handle start, nb::handle end, int64_t L) {
             const int64_t* own = pointer<const int64_t>(offsets);
             new (self) I(pointer<const double>(segments), {own, own + B + 1}, K, pointer<const double>(transitions),
                          pointer<const double>(start), pointer<const double>(end), L);
           })
      .def("log_partition", unlocked_method(&I::log_partition))
      .def("score", unlocked_function([](const I& self, const int64_t* counts, const int64_t* path, double* out) {
             return self.score(counts, reinterpret_cast<const PathSegment*>(path), out);
           }))
      .def("marginals", unlocked_method(&I::marginals))
      .def("entropy", unlocked_method(&I::entropy))
      .def("viterbi", [](I& self) { return paths_of([&](SegmentPaths& paths) { return self.viterbi(paths); }); })
      .def("kbest",
           [](I& self, int64_t k) { return paths_of([&](SegmentPaths& paths) { return self.kbest(k, paths); }); })
      .def("sample", [](I& self, int64_t n, uint64_t seed) {
        return paths_of([&](SegmentPaths& paths) { return self.sample(n, seed, paths); });
      });
}

}  // namespace trellis::bind
