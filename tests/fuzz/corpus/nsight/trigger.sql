create trigger t after insert on StringIds begin delete from CUPTI_ACTIVITY_KIND_KERNEL; end
insert into StringIds values (3, 'x')