// The kernels of one instruction set. CMake compiles this file once for each, with TRELLIS_ISA naming the namespace.
#include "chain/kernels.h"

#include "chain/edges_kernels.h"
#include "chain/entropy_kernels.h"
#include "chain/finite_kernels.h"
#include "chain/lockstep_kernels.h"
#include "chain/marginals_kernels.h"
#include "chain/sampling_kernels.h"
#include "chain/spans_kernels.h"
#include "chain/viterbi_kernels.h"
#include "chain/weighted_kernels.h"

TRELLIS_KERNELS_BY_TYPE(chain, Kernels, width<R>, group_size, contents<R>, prepare<R>, forward<R>, backward<R>,
                        viterbi<R>, edge_forward<R>, edge_backward<R>, edge_viterbi<R>, log_partition<R>,
                        log_marginals<R>, entropy<R>, sample<R>, spans<R>, weighted_nll<R>)
