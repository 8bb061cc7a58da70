"""Which of Warp's test files are run, and how many tests each registers on a machine without a GPU."""

# ruff: noqa: E501

from __future__ import annotations

EXPECTED: dict[str, dict[str, int]] = {
    "core": {
        "matrix/test_mat.py": 81, "matrix/test_mat_assign_copy.py": 3, "matrix/test_mat_basics.py": 66,
        "matrix/test_mat_constructors.py": 27, "matrix/test_mat_elementwise_ops.py": 55, "matrix/test_mat_linalg.py": 77,
        "matrix/test_mat_lite.py": 3, "test_arithmetic.py": 67, "test_array.py": 79, "test_array_reduce.py": 11,
        "test_array_subclass.py": 63, "test_assert.py": 11, "test_atomic.py": 82, "test_atomic_bitwise.py": 3,
        "test_atomic_cas.py": 24, "test_bf16.py": 27, "test_bit_count.py": 11, "test_bool.py": 8,
        "test_builtins_resolution.py": 68, "test_codegen.py": 123, "test_codegen_continue.py": 7,
        "test_codegen_instancing.py": 41, "test_compile_consts.py": 21, "test_conditional.py": 29,
        "test_constant_precision.py": 24, "test_copy.py": 12, "test_ctypes.py": 18, "test_dense.py": 1, "test_enum.py": 7,
        "test_factory_style_array_annotations.py": 19, "test_fixedarray.py": 10, "test_fp16.py": 3, "test_func.py": 24,
        "test_func_parameter_targets.py": 24, "test_future_annotations.py": 1, "test_generics.py": 25,
        "test_implicit_init.py": 21, "test_indexedarray.py": 19, "test_iter.py": 2, "test_large.py": 14,
        "test_launch.py": 25, "test_lerp.py": 1, "test_lvalue.py": 16, "test_map.py": 23, "test_math.py": 12,
        "test_noise.py": 7, "test_operators.py": 10, "test_print.py": 5, "test_quat.py": 85, "test_quat_assign_copy.py": 3,
        "test_rand.py": 6, "test_ref.py": 58, "test_rounding.py": 1, "test_runlength_encode.py": 10,
        "test_scalar_ops.py": 44, "test_smoothstep.py": 1, "test_spatial.py": 109, "test_spatial_assign_copy.py": 3,
        "test_special_values.py": 37, "test_static.py": 33, "test_struct.py": 30, "test_subscript_types.py": 37,
        "test_tuple.py": 8, "test_types.py": 63, "test_unpack.py": 16, "test_utils.py": 70, "test_vec.py": 45,
        "test_vec_assign_copy.py": 4, "test_vec_constructors.py": 13, "test_vec_lite.py": 3, "test_vec_scalar_ops.py": 212,
        "test_verify_fp.py": 3,
    },
    "autodiff": {
        "autodiff/test_adam.py": 7, "autodiff/test_composite_component_adjoint.py": 24, "autodiff/test_grad.py": 24,
        "autodiff/test_grad_customs.py": 12, "autodiff/test_grad_debug.py": 24, "autodiff/test_overwrite.py": 19,
        "autodiff/test_sgd.py": 10, "autodiff/test_tape.py": 25,
    },
    "tile": {
        "tile/test_tile.py": 91, "tile/test_tile_atomic_bitwise.py": 6, "tile/test_tile_block_dim_mismatch.py": 1,
        "tile/test_tile_cholesky.py": 26, "tile/test_tile_cholesky_no_mathdx.py": 15,
        "tile/test_tile_composite_row.py": 16, "tile/test_tile_construction.py": 27, "tile/test_tile_empty.py": 11,
        "tile/test_tile_fft.py": 20, "tile/test_tile_fft_no_mathdx.py": 16, "tile/test_tile_func_arg.py": 15,
        "tile/test_tile_fused_ops.py": 20, "tile/test_tile_large_offsets.py": 1, "tile/test_tile_load.py": 17,
        "tile/test_tile_load_assign.py": 5, "tile/test_tile_load_extract.py": 5, "tile/test_tile_load_indexed.py": 7,
        "tile/test_tile_load_vectorized.py": 5, "tile/test_tile_low_precision_stack.py": 1,
        "tile/test_tile_matmul.py": 31, "tile/test_tile_matmul_no_mathdx.py": 26,
        "tile/test_tile_matmul_strides.py": 4, "tile/test_tile_oob.py": 5, "tile/test_tile_print.py": 2,
        "tile/test_tile_reduce.py": 64, "tile/test_tile_shared_memory.py": 46, "tile/test_tile_solve.py": 19,
        "tile/test_tile_solve_no_mathdx.py": 36, "tile/test_tile_sort.py": 10, "tile/test_tile_stack.py": 38,
        "tile/test_tile_struct.py": 18, "tile/test_tile_view.py": 53,
    },
    "geometry": {
        "geometry/test_bvh.py": 22, "geometry/test_hash_grid.py": 33, "geometry/test_marching_cubes.py": 16,
        "geometry/test_mesh.py": 11, "geometry/test_mesh_query_aabb.py": 17, "geometry/test_mesh_query_point.py": 5,
        "geometry/test_mesh_query_ray.py": 6, "geometry/test_volume.py": 43, "geometry/test_volume_validation.py": 22,
    },
}
