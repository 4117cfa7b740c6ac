insert into TARGET_INFO_GPU values (0, 'NVIDIA H100')
insert into NVTX_EVENTS values (0, 4000, 'iteration 1', 16777217, null)
insert into CUPTI_ACTIVITY_KIND_MEMCPY values (3100, 3200, 0, 7, 2, 16777216, 1)