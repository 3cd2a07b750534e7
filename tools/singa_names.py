"""The public names of Apache SINGA 5.1's Python package, by module; facts for `api_coverage.py`.

`"Class"` stands for the class, `"Class.member"` for a member of it. `OMITTED` gives the reason for each name that
singax leaves out on purpose.
"""

from __future__ import annotations

NAMES: dict[str, str] = {
    "tensor": """
        float32 float16 int32 sizeof PlaceHolder Tensor
        from_numpy to_numpy to_host from_raw_tensor from_raw_tensors zeros_like ones_like zeros ones random product
        contiguous reshape transpose copy_data_to_from concatenate repeat abs exp ceil log sigmoid sign sqrt square tanh
        sum average pow softmax lt le gt ge eq add sub eltwise_mult div mult einsum tensordot axpy bernoulli gaussian
        uniform add_column add_row sum_columns sum_rows copy_from_numpy _call_singa_func
    """,
    "tensor.Tensor": """
        tensor_count shape device dtype data requires_grad stores_grad name creator
        ndim size memsize is_empty is_dummy is_transpose transpose T reshape contiguous reset_like as_type to_type
        to_device to_host l1 l2 set_value gaussian uniform bernoulli copy_from_numpy copy_data copy_from clone deepcopy
        copy repeat add_column add_row div_column div_row mult_column mult_row
        __add__ __sub__ __mul__ __truediv__ __floordiv__ __lt__ __le__ __gt__ __ge__ __eq__ __radd__ __rsub__ __rmul__
        __rtruediv__ __iadd__ __isub__ __imul__ __itruediv__ __getitem__
    """,
    "device": """
        get_default_device create_cpu_device create_cuda_gpu create_cuda_gpu_on create_cuda_gpus create_cuda_gpus_on
        get_num_gpus get_gpu_ids get_gpu_mem_size device_query create_opencl_device get_num_opencl_platforms
        get_num_opencl_devices enable_lazy_alloc default_device
    """,
    "device.Device": """
        id SetRandSeed host Sync Reset EnableGraph graph_enabled ResetGraph RunGraph SetVerbosity SetSkipIteration
        PrintTimeProfiling EnableLazyAlloc
    """,
    "autograd": """
        training backward gradients infer_dependency axis_helper back_broadcast ctensor2numpy Operator Operation Dummy
        relu sigmoid tanh cos cosh acos acosh sin sinh asin asinh tan atan atanh abs exp log sqrt sign negative
        reciprocal ceil floor round rounde erf identity elu selu leakyrelu hardsigmoid softplus softsign clip _not cast
        dropout add sub mul div pow prelu less greater equal _and _or _xor min max sum mean where cossim matmul gemm
        add_bias embedding reshape flatten transpose squeeze unsqueeze cat split slice gather scatter_elements tile
        expand pad upsample depth_to_space space_to_depth onehot nonzero shape constant_of_shape reduce_sum reduce_mean
        softmax globalaveragepool conv2d pooling_2d batchnorm_2d softmax_cross_entropy mse_loss cross_entropy
        binary_cross_entropy ranking_loss add_all
        ReLU Sigmoid Tanh Cos Cosh Acos Acosh Sin Sinh Asin Asinh Tan Atan Atanh Abs Exp Log Sqrt Sign Negative
        Reciprocal Ceil Floor Round Rounde Erf Identity Elu SeLU LeakyRelu HardSigmoid SoftPlus SoftSign Clip Not Cast
        Dropout Add Sub Mul Div Pow PRelu Less Greater Equal And Or Xor Min Max Sum Mean Where CosSim Matmul Gemm
        AddBias Embedding Reshape Flatten Transpose Squeeze Unsqueeze Concat Split Slice Gather ScatterElements Tile
        Expand Pad UpSample DepthToSpace SpaceToDepth OneHot NonZero Shape ConstantOfShape ReduceSum ReduceMean SoftMax
        GlobalAveragePool _Conv2d _Pooling2d _BatchNorm2d _RNN SoftMaxCrossEntropy MeanSquareError CrossEntropy
        BinaryCrossEntropy RankingLoss
        Linear Conv2d SeparableConv2d BatchNorm2d Pooling2d MaxPool2d AvgPool2d MaxPool1d AvgPool1d RNN_Base RNN LSTM
    """,
    "autograd.Operator": "op_count forward backward get_params output_name grad_name name src y_id2idx requires_grad",
    "layer": """
        Layer Linear Gemm Embedding Conv2d SeparableConv2d BatchNorm2d Pooling2d MaxPool2d AvgPool2d MaxPool1d AvgPool1d
        RNN LSTM CudnnRNN RNN_Base ReLU Sigmoid Add Flatten SoftMax Cat Reshape Dropout SoftMaxCrossEntropy
        MeanSquareError CrossEntropy BinaryCrossEntropy
    """,
    "layer.Layer": """
        sep initialize forward get_params set_params get_states set_states device_check dtype_check register_layers name
    """,
    "layer.Embedding": "from_pretrained",
    "layer.RNN_Base": "step_forward",
    "model": "Model",
    "model.Model": """
        compile forward train_one_batch train eval graph save_states load_states get_params set_params get_states
        set_states register_layers TENSOR_DICT_FILENAME STATES_ATTR_FILENAME MODEL_STATE_TYPE AUX_STATE_TYPE
        training graph_mode sequential
    """,
    "opt": "DecayScheduler Constant ExponentialDecay Optimizer SGD RMSProp AdaGrad Adam DistOpt",
    "opt.Optimizer": """
        call step apply update backward_and_update get_states set_states device_check lr lr_value step_counter
    """,
    "opt.DecayScheduler": "call",
    "opt.DistOpt": """
        update all_reduce fused_all_reduce all_reduce_half fused_all_reduce_half sparsification fused_sparsification
        wait backward_and_update backward_and_update_half backward_and_partial_update backward_and_sparse_update
    """,
    "initializer": """
        lecun_uniform lecun_normal glorot_uniform glorot_normal he_uniform he_normal eye orthogonal gaussian xavier
        glorot msra
    """,
    "data": "ImageBatchIter",
    "data.ImageBatchIter": "start end",
    "image_tool": """
        load_img crop crop_and_resize resize scale resize_by_hw color_cast enhance flip flip_down get_list_sample
        ImageTool
    """,
    "image_tool.ImageTool": """
        load set append get num_augmentation scale_by_range scale_by_list resize_by_range resize_by_list
        resize_by_hw_range resize_by_hw_list rotate_by_range rotate_by_list crop5 crop3 crop8 random_crop
        random_crop_resize flip flip_down color_cast enhance
    """,
    "snapshot": "Snapshot",
    "snapshot.Snapshot": "write read",
    "utils": """
        update_progress handle_odd_pad_fwd handle_odd_pad_bwd same_pad_shape_check re_new_handle get_padding_shape
        get_output_shape force_unicode post_order_recursive
    """,
    "singa_wrap": """
        USE_CUDA USE_CUDNN USE_DNNL USE_OPENCL USE_DIST USE_PYTHON USE_JAVA USE_CBLAS SINGA_VERSION SINGA_MAJOR_VERSION
        SINGA_MINOR_VERSION SINGA_PATCH_VERSION kFloat32 kFloat16 kInt ConvHandle PoolingHandle BatchNormHandle
        CudnnConvHandle CudnnBatchNormHandle CudnnPoolingHandle CudnnRNNHandle NcclIdHolder Communicator
    """,
}

OMITTED: dict[str, str] = {
    "singa_wrap.Communicator": "NCCL's own interface; JAX communicates inside compiled programs, see opt.DistOpt",
}
