# layout_words.sh - short words of layouts (TP2 EP4 alltoall overlap:dp), as the overrides that they stand for; overrides
# stay as they are. Read by `. tests/cli/layout_words.sh` from the repository's root.
words() {
    local w
    for w; do
        case $w in
            TP*) echo "model.tensor_model_parallel_size=${w#TP}" ;;
            CP*) echo "model.context_parallel_size=${w#CP}" ;;
            EP*) echo "model.expert_model_parallel_size=${w#EP}" ;;
            ETP*) echo "model.expert_tensor_parallel_size=${w#ETP}" ;;
            PP*) echo "model.pipeline_model_parallel_size=${w#PP}" ;;
            VPP*) echo "model.virtual_pipeline_model_parallel_size=${w#VPP}" ;;
            stages:*) echo "model.pipeline_model_parallel_layout=${w#stages:}" ;;
            cp:a2a+p2p) echo "model.cp_comm_type=a2a+p2p model.hierarchical_context_parallel_sizes=[2,2]" ;;
            cp:latent) echo "moefold.mla_latent_ring=true" ;;
            cp:*) echo "model.cp_comm_type=${w#cp:}" ;;
            deepep | hybridep) echo "model.moe_token_dispatcher_type=flex model.moe_flex_dispatcher_backend=$w" ;;
            alltoall | allgather) echo "model.moe_token_dispatcher_type=$w" ;;
            overlap:ep) echo "comm_overlap.overlap_moe_expert_parallel_comm=true" ;;
            overlap:wgrad) echo "comm_overlap.delay_wgrad_compute=true" ;;
            overlap:dp) echo "ddp.overlap_grad_reduce=true ddp.overlap_param_gather=true ddp.bucket_size=8000" ;;
            overlap:p2p) echo "comm_overlap.overlap_p2p_comm=true comm_overlap.batch_p2p_comm=false" ;;
            overlap:tp) echo "comm_overlap.tp_comm_overlap=true" ;;
            overlap:shared) echo "model.moe_shared_expert_overlap=true" ;;
            fp8:blockwise) echo "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed" ;;
            fp8:tensorwise)
                echo "mixed_precision=bf16_with_fp8_current_scaling_mixed mixed_precision.fp8_param_gather=false mixed_precision.first_last_layers_bf16=false"
                ;;
            fp8:mxfp8)
                echo "mixed_precision=bf16_with_mxfp8_mixed mixed_precision.fp8_param_gather=false mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=false"
                ;;
            fp4) echo "mixed_precision=bf16_with_nvfp4_mixed mixed_precision.fp4_param_gather=false" ;;
            recompute) echo "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1" ;;
            *=*) echo "$w" ;;
            *) echo "not-a-word:$w" ;;
        esac
    done
}
